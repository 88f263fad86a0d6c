#pragma once

#include "mneme/kernels/product_coded.h"

namespace mneme::kernels {

/// CodedProduct by AMX's products of bytes: sixteen rows by a panel's group are one instruction, and the chain over
/// groups is that of the definition, so its bits are the same. Codes are made bytes once for many rows.
///
/// Tiles as in product_amx.h, and configure_bytes(n): registers 0 to 3 hold sixteen rows of sixteen integers, 4 and 5
/// sixteen rows of n bytes, 6 and 7 n / 4 quads; dot_bytes<Sum, Rows, Panel>() adds products of signed bytes.
template <class L, class Tiles, WeightFormat kStored>
struct AmxCodedProduct : CodedProduct<L, kStored> {
  static void product(const ProductArgs& args) noexcept {
    const std::int64_t n_tiled = args.n_rows / kTile * kTile;
    if (n_tiled) {
      Tiles::configure_bytes(kGroup);
      for (std::int64_t m = 0; m < n_tiled; m += kRowBlock) {
        const std::int64_t end = m + kRowBlock < n_tiled ? m + kRowBlock : n_tiled;
        for (std::int64_t p = 0; p < args.n_panels; ++p) {
          for (std::int64_t k = 0; k < args.inner; k += kSpan) span(args, m, end, p, k);
        }
      }
      Tiles::release();
    }
    if (n_tiled == args.n_rows) return;
    ProductArgs rest = args;
    rest.x = static_cast<const std::byte*>(args.x) + n_tiled * args.x_stride;
    rest.y += n_tiled * args.y_stride;
    rest.n_rows -= n_tiled;
    Base::product(rest);
  }

 private:
  using Base = CodedProduct<L, kStored>;
  using Block = typename Base::Block;
  using Words = typename L::Words;
  static constexpr CodedFormat kCoded = Base::kCoded;
  static constexpr int kTile = 16, kGroup = kCoded.group;
  /// Inner elements whose bytes stay in the first-level cache, and rows that stay in the second.
  static constexpr std::int64_t kSpan = 1024, kRowBlock = 256;

  /// A span of a panel: bytes [groups][quads][16][4] of codes less their zero, scales and minimums [groups][16].
  struct alignas(64) Unpacked {
    std::byte codes[kSpan * kPanel];
    float scales[kSpan / kGroup * kPanel], mins[kCoded.has_min ? kSpan / kGroup * kPanel : 1];
  };

  static void span(const ProductArgs& args, std::int64_t m, std::int64_t end, std::int64_t p, std::int64_t k) {
    const std::int64_t blocks = args.inner / kCoded.block_elements();
    const auto* block =
        static_cast<const std::byte*>(args.panels) + (p * blocks + k / kCoded.block_elements()) * Block::kBytes;
    const std::int64_t n = args.inner - k < kSpan ? args.inner - k : kSpan;
    Unpacked unpacked;
    unpack(block, n, unpacked);
    for (; m < end; m += kTile) tile(args, unpacked, m, p, k, n);
  }

  static void unpack(const std::byte* block, std::int64_t n, Unpacked& out) {
    for (std::int64_t i = 0; i < n / kGroup; block += Block::kBytes) {
      const L d = Base::block_scale(block);
      for (int g = 0; g < kCoded.block_groups; ++g, ++i) {
        quads(block + Block::kGroups + g * Block::kGroupBytes, out.codes + i * kGroup * kPanel);
        Base::group_scale(block, d, g).store(out.scales + i * kPanel);
        if constexpr (kCoded.has_min) Base::group_min(block, g).store(out.mins + i * kPanel);
      }
    }
  }

  template <int q = 0>
  [[gnu::always_inline]] static void quads(const std::byte* group, std::byte* out) {
    Words codes = Base::template stored_quad<q>(group);
    // Byte by byte, without a carry: q + 128 - zero with its highest bit turned is q - zero.
    if constexpr (kCoded.zero != 0) codes = (codes + Words::set1((128 - kCoded.zero) * 0x01010101)) ^ 0x80808080u;
    codes.store(out + q * 64);
    if constexpr (q + 1 < Block::kQuads) quads<q + 1>(group, out);
  }

  static void tile(const ProductArgs& args, const Unpacked& unpacked, std::int64_t m, std::int64_t p, std::int64_t k,
                   std::int64_t n) {
    const auto* x = static_cast<const std::byte*>(args.x) + m * args.x_stride;
    const auto* row_scales = x + args.inner + k / kRowGroup * 4;
    const std::int64_t to_sums = args.inner / kRowGroup * 4;
    float* y = args.y + m * args.y_stride + p * kPanel;
    L total[kTile];
#pragma GCC unroll 16
    for (int r = 0; r < kTile; ++r) total[r] = k ? L::load(y + r * args.y_stride) : L::zero();
    const auto multiply = [&]<int T>(std::int64_t g) __attribute__((always_inline)) {
      Tiles::template load<4 + T>(x + k + g * kGroup, args.x_stride);
      Tiles::template load<6 + T>(unpacked.codes + g * kGroup * kPanel, 64);
      Tiles::template zero<T>();
      Tiles::template dot_bytes<T, 4 + T, 6 + T>();
    };
    const auto join = [&]<int T>(std::int64_t g) __attribute__((always_inline)) {
      alignas(64) std::int32_t sums[kTile * kPanel];
      Tiles::template store<T>(sums, 64);
      const L scale = L::load(unpacked.scales + g * kPanel);
      const std::byte* of_group = row_scales + g * kGroup / kRowGroup * 4;
#pragma GCC unroll 16
      for (int r = 0; r < kTile; ++r) {
        const L sum = Words::load(sums + r * kPanel).to_floats();
        total[r] = L::fma(sum, scale * broadcast(of_group + r * args.x_stride), total[r]);
      }
      if constexpr (kCoded.has_min) {
        const L min = L::load(unpacked.mins + g * kPanel);
#pragma GCC unroll 16
        for (int r = 0; r < kTile; ++r) {
          total[r] = L::fma(min, broadcast(of_group + to_sums + r * args.x_stride), total[r]);
        }
      }
    };
    const std::int64_t n_groups = n / kGroup;
    multiply.template operator()<0>(0);
    for (std::int64_t g = 0; g < n_groups; g += 2) {
      if (g + 1 < n_groups) multiply.template operator()<1>(g + 1);
      join.template operator()<0>(g);
      if (g + 2 < n_groups) multiply.template operator()<0>(g + 2);
      if (g + 1 < n_groups) join.template operator()<1>(g + 1);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kTile; ++r) total[r].store(y + r * args.y_stride);
  }

  [[gnu::always_inline]] static L broadcast(const std::byte* number) {
    return L::set1(*reinterpret_cast<const float*>(number));
  }
};

}  // namespace mneme::kernels
