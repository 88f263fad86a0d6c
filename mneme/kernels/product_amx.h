#pragma once

#include "mneme/kernels/product.h"

namespace mneme::kernels {

/// bfloat16 panels by AMX: one panel's 32 inner elements are a tile as they lie. Prepared rows are bfloat16.
///
/// Tiles does what the instructions do; there are eight registers of 16 rows of 64 bytes:
///
///   configure(rows_0, rows_1)  registers 0, 1, 4 have rows_0 rows, 2, 3, 5 rows_1, and 6, 7 sixteen
///   zero<T>()  load<T>(from, stride)  store<T>(to, stride)  dot<Sum, Rows, Panel>()  release()
///   clear<T>()                 zero<T>, where other products hide what it costs
///   to_bfloat16(from, to), to_bfloat16(low, high, to)
///                              rounds sixteen floats; denormals, which `dot` takes for zeros, may become so here
///
/// Registers 0 to 3 hold sums (of two times sixteen rows by two panels, or of up to sixteen rows by four), 4 and 5
/// rows, 6 and 7 panels. Rows that a product does not have are not read: their number is part of the configuration.
template <class L, class Tiles>
struct AmxFormat {
  static constexpr DType kFormat = DType::kBFloat16;

  static constexpr std::int64_t prepared_bytes(std::int64_t inner) noexcept {
    return spread_row_bytes(padded_inner(kFormat, inner) * 2);
  }

  static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner,
                      void* out) noexcept {
    const std::int64_t padded = padded_inner(kFormat, inner), bytes = prepared_bytes(inner);
    for (std::int64_t m = 0; m < n_rows; ++m) {
      auto* row = reinterpret_cast<std::uint16_t*>(static_cast<char*>(out) + m * bytes);
      std::int64_t k = 0;
      for (; k + kPanel <= inner; k += kPanel) Tiles::to_bfloat16(L::load(x + m * x_stride + k), row + k);
      if (k < inner) L::load_first(x + m * x_stride + k, static_cast<int>(inner - k)).store_bfloat16(row + k);
      for (k = round_up(inner, kPanel); k < padded; k += kPanel) L::zero().store_bfloat16(row + k);
    }
  }

  void product(const ProductArgs& args) noexcept {
    const std::int64_t n_paired = args.n_rows / 32 * 32, rest = args.n_rows - n_paired;
    if (n_paired) {
      configure(16, 16);
      for (std::int64_t m = 0; m < n_paired; m += kRowBlock) {
        panels<2, 2>(args, m, n_paired - m < kRowBlock ? n_paired : m + kRowBlock);
      }
    }
    if (rest > 16) {
      configure(16, static_cast<int>(rest - 16));
      panels<2, 2>(args, n_paired, args.n_rows);
    } else if (rest > 0) {
      configure(static_cast<int>(rest), static_cast<int>(rest));
      panels<1, 4>(args, n_paired, args.n_rows);
    }
  }

  /// A product of up to kRows rows by kPanels panels, `panel_bytes` apart, in steps of a tile each, between which the
  /// processor has other work. Until the last one nothing else may use the registers, or change what it adds to.
  class Steps {
   public:
    static constexpr std::int64_t kRows = 16, kPanels = 4;

    static constexpr std::int64_t of_a_panel(std::int64_t inner) { return padded_inner(kFormat, inner) / 32 + 1; }

    Steps() = default;
    Steps(AmxFormat& format, const ProductArgs& args, std::int64_t panel_bytes) noexcept
        : args_(args), panel_bytes_(panel_bytes), inner_(padded_inner(kFormat, args.inner)), k_(0) {
      format.configure(static_cast<int>(args.n_rows), static_cast<int>(args.n_rows));
    }
    bool done() const { return k_ > inner_; }

    /// Of each panel 32 inner elements, of each the next 32, and so on; then the sums.
    void step() noexcept {
      switch (panel_) {
        case 0: step_of<0>(); break;
        case 1: step_of<1>(); break;
        case 2: step_of<2>(); break;
        default: step_of<3>();
      }
      if (++panel_ < args_.n_panels) return;
      panel_ = 0;
      k_ += 32;
    }

   private:
    template <int J>
    void step_of() const noexcept {
      float* const y = args_.y + J * kPanel;
      if (k_ == inner_) return Tiles::template store<J>(y, args_.y_stride * 4);
      if (k_ == 0) {
        if (args_.adds) {
          Tiles::template load<J>(y, args_.y_stride * 4);
        } else {
          Tiles::template clear<J>();
        }
      }
      if (J == 0) Tiles::template load<4>(static_cast<const char*>(args_.x) + k_ * 2, args_.x_stride);
      constexpr int kPanelTile = 6 + J % 2;
      Tiles::template load<kPanelTile>(static_cast<const char*>(args_.panels) + J * panel_bytes_ + k_ * kPanel * 2,
                                       kTileRow);
      Tiles::template dot<J, 4, kPanelTile>();
    }

    ProductArgs args_{};
    std::int64_t panel_bytes_ = 0, inner_ = 0, k_ = 1;
    int panel_ = 0;
  };

  /// Probabilities (softmax.h) as prepared rows hold them.
  struct Probabilities {
    static constexpr int kFloats = 8;
    static void store(L low, L high, float* p) { Tiles::to_bfloat16(low, high, reinterpret_cast<std::uint16_t*>(p)); }
  };

  /// Registers stay configured from one product to the next: to do it takes two hundred cycles.
  AmxFormat() = default;
  AmxFormat(const AmxFormat&) = delete;
  AmxFormat& operator=(const AmxFormat&) = delete;
  ~AmxFormat() {
    if (rows_0_) Tiles::release();
  }

 private:
  /// Rows that stay in the second-level cache while all panels pass, and inner elements of two panels that stay in the
  /// first while these rows do.
  static constexpr std::int64_t kRowBlock = 256, kInnerBlock = 512, kFewRows = 16;

  int rows_0_ = 0, rows_1_ = 0;  ///< as configured

  void configure(int rows_0, int rows_1) noexcept {
    if (rows_0 == rows_0_ && rows_1 == rows_1_) return;
    Tiles::configure(rows_0_ = rows_0, rows_1_ = rows_1);
  }

  /// Rows [m, m_end), kRowTiles tiles at a time, by all panels, kPanels at a time.
  template <int kRowTiles, int kPanels>
  static void panels(const ProductArgs& args, std::int64_t m, std::int64_t m_end) {
    std::int64_t p = 0;
    for (; p + kPanels <= args.n_panels; p += kPanels) row_tiles<kRowTiles, kPanels>(args, m, m_end, p);
    for (; p < args.n_panels; ++p) row_tiles<kRowTiles, 1>(args, m, m_end, p);
  }

  /// Sums wait in y from one block of inner elements to the next, which is exact.
  template <int kRowTiles, int kPanels>
  static void row_tiles(const ProductArgs& args, std::int64_t m, std::int64_t m_end, std::int64_t p) {
    const std::int64_t padded = padded_inner(kFormat, args.inner);
    const bool is_one = m + kRowTiles * 16 >= m_end || padded <= kInnerBlock;
    const std::int64_t n_blocks = is_one ? 1 : (padded + kInnerBlock - 1) / kInnerBlock;
    const std::int64_t step = round_up((padded + n_blocks - 1) / n_blocks, 32);
    std::int64_t k = 0;
    do {  // at least once: a product over nothing is zero
      const std::int64_t end = padded - k < step ? padded : k + step;
      for (std::int64_t row = m; row < m_end; row += kRowTiles * 16) sums<kRowTiles, kPanels>(args, row, p, k, end);
      k = end;
    } while (k < padded);
  }

  template <int kRowTiles, int kPanels>
  static void sums(const ProductArgs& args, std::int64_t m, std::int64_t p, std::int64_t k, std::int64_t end) {
    const std::int64_t panel = padded_inner(kFormat, args.inner) * kPanel * 2, y_bytes = args.y_stride * 4;
    const char* rows = static_cast<const char*>(args.x) + m * args.x_stride + k * 2;
    const char* weights = static_cast<const char*>(args.panels) + p * panel + k * kPanel * 2;
    float* y = args.y + m * args.y_stride + p * kPanel;
    for_each_panel<kPanels>([&]<int J>() {
      if (k == 0 && !args.adds) {
        Tiles::template zero<J>();
        if constexpr (kRowTiles == 2) Tiles::template zero<J + 2>();
      } else {
        Tiles::template load<J>(y + J * kPanel, y_bytes);
        if constexpr (kRowTiles == 2) Tiles::template load<J + 2>(y + 16 * args.y_stride + J * kPanel, y_bytes);
      }
    });
    for (; k < end; k += 32, rows += kTileRow, weights += 16 * kTileRow) {
      Tiles::template load<4>(rows, args.x_stride);
      if constexpr (kRowTiles == 2) Tiles::template load<5>(rows + 16 * args.x_stride, args.x_stride);
      for_each_panel<kPanels>([&]<int J>() {
        constexpr int kPanelTile = 6 + J % 2;
        const char* tile = weights + J * panel;
        if (kRowTiles == 1 && args.n_rows <= kFewRows) {  // they wait for memory
          for (int line = 0; line < 16; ++line) __builtin_prefetch(tile + kAhead + line * kTileRow);
        }
        Tiles::template load<kPanelTile>(tile, kTileRow);
        Tiles::template dot<J, 4, kPanelTile>();
        if constexpr (kRowTiles == 2) Tiles::template dot<J + 2, 5, kPanelTile>();
      });
    }
    for_each_panel<kPanels>([&]<int J>() {
      Tiles::template store<J>(y + J * kPanel, y_bytes);
      if constexpr (kRowTiles == 2) Tiles::template store<J + 2>(y + 16 * args.y_stride + J * kPanel, y_bytes);
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
