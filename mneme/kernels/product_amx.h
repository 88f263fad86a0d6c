#pragma once

#include "mneme/kernels/product.h"

namespace mneme::kernels {

/// bfloat16 panels by AMX: one panel's 32 inner elements are a tile as they lie. Prepared rows are bfloat16.
///
/// Tiles does what the instructions do; there are eight registers of 16 rows of 64 bytes:
///
///   configure(rows_0, rows_1)  registers 0, 1, 4 have rows_0 rows, 2, 3, 5 rows_1, and 6, 7 sixteen
///   zero<T>()  load<T>(from, stride)  store<T>(to, stride)  dot<Sum, Rows, Panel>()  release()
///
/// Registers 0 to 3 hold sums (of two times sixteen rows by two panels, or of up to sixteen rows by four), 4 and 5
/// rows, 6 and 7 panels. Rows that a product does not have are not read: their number is part of the configuration.
template <class L, class Tiles>
struct AmxFormat {
  static constexpr DType kFormat = DType::kBFloat16;

  static std::int64_t prepared_bytes(std::int64_t inner) noexcept {
    return spread_row_bytes(padded_inner(kFormat, inner) * 2);
  }

  static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner,
                      void* out) noexcept {
    const std::int64_t padded = padded_inner(kFormat, inner), bytes = prepared_bytes(inner);
    for (std::int64_t m = 0; m < n_rows; ++m) {
      auto* row = reinterpret_cast<std::uint16_t*>(static_cast<char*>(out) + m * bytes);
      std::int64_t k = 0;
      for (; k + kPanel <= inner; k += kPanel) L::load(x + m * x_stride + k).store_bfloat16(row + k);
      if (k < inner) L::load_first(x + m * x_stride + k, static_cast<int>(inner - k)).store_bfloat16(row + k);
      for (k = round_up(inner, kPanel); k < padded; k += kPanel) L::zero().store_bfloat16(row + k);
    }
  }

  static void product(const ProductArgs& args) noexcept {
    const std::int64_t n_paired = args.n_rows / 32 * 32, rest = args.n_rows - n_paired;
    if (n_paired) {
      Tiles::configure(16, 16);
      for (std::int64_t m = 0; m < n_paired; m += kRowBlock) {
        panels<2, 2>(args, m, n_paired - m < kRowBlock ? n_paired : m + kRowBlock);
      }
    }
    if (rest > 16) {
      Tiles::configure(16, static_cast<int>(rest - 16));
      panels<2, 2>(args, n_paired, args.n_rows);
    } else if (rest > 0) {
      Tiles::configure(static_cast<int>(rest), static_cast<int>(rest));
      panels<1, 4>(args, n_paired, args.n_rows);
    }
    if (args.n_rows > 0) Tiles::release();
  }

 private:
  /// Rows that stay in the second-level cache while all panels pass.
  static constexpr std::int64_t kRowBlock = 256;

  /// Rows [m, m_end), kRowTiles tiles at a time, by all panels, kPanels at a time.
  template <int kRowTiles, int kPanels>
  static void panels(const ProductArgs& args, std::int64_t m, std::int64_t m_end) {
    std::int64_t p = 0;
    for (; p + kPanels <= args.n_panels; p += kPanels) row_tiles<kRowTiles, kPanels>(args, m, m_end, p);
    for (; p < args.n_panels; ++p) row_tiles<kRowTiles, 1>(args, m, m_end, p);
  }

  template <int kRowTiles, int kPanels>
  static void row_tiles(const ProductArgs& args, std::int64_t m, std::int64_t m_end, std::int64_t p) {
    for (; m < m_end; m += kRowTiles * 16) sums<kRowTiles, kPanels>(args, m, p);
  }

  template <int kRowTiles, int kPanels>
  static void sums(const ProductArgs& args, std::int64_t m, std::int64_t p) {
    const std::int64_t padded = padded_inner(kFormat, args.inner), panel = padded * kPanel * 2;
    const char* rows = static_cast<const char*>(args.x) + m * args.x_stride;
    const char* weights = static_cast<const char*>(args.panels) + p * panel;
    for_each_panel<kPanels>([]<int J>() {
      Tiles::template zero<J>();
      if constexpr (kRowTiles == 2) Tiles::template zero<J + 2>();
    });
    for (std::int64_t k = 0; k < padded; k += 32, rows += kTileRow, weights += 16 * kTileRow) {
      Tiles::template load<4>(rows, args.x_stride);
      if constexpr (kRowTiles == 2) Tiles::template load<5>(rows + 16 * args.x_stride, args.x_stride);
      for_each_panel<kPanels>([&]<int J>() {
        constexpr int kPanelTile = 6 + J % 2;
        const char* tile = weights + J * panel;
        if constexpr (kRowTiles == 1) {  // few rows wait for memory
          for (int line = 0; line < 16; ++line) __builtin_prefetch(tile + kAhead + line * kTileRow);
        }
        Tiles::template load<kPanelTile>(tile, kTileRow);
        Tiles::template dot<J, 4, kPanelTile>();
        if constexpr (kRowTiles == 2) Tiles::template dot<J + 2, 5, kPanelTile>();
      });
    }
    float* y = args.y + m * args.y_stride + p * kPanel;
    for_each_panel<kPanels>([&]<int J>() {
      Tiles::template store<J>(y + J * kPanel, args.y_stride * 4);
      if constexpr (kRowTiles == 2)
        Tiles::template store<J + 2>(y + 16 * args.y_stride + J * kPanel, args.y_stride * 4);
    });
  }

  static constexpr std::int64_t kTileRow = 64, kAhead = 2 * 16 * kTileRow;

  template <int kPanels, class F>
  [[gnu::always_inline]] static void for_each_panel(F f) {
    if constexpr (kPanels > 1) for_each_panel<kPanels - 1>(f);
    f.template operator()<kPanels - 1>();
  }
};

}  // namespace mneme::kernels
