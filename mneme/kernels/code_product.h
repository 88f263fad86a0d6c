#pragma once

#include <cstring>

#include "mneme/kernels/code_scales.h"
#include "mneme/kernels/tiles.h"
#include "mneme/kernels/unpack_codes.h"

namespace mneme::kernels {

/// Rows of floats times an encoded tile (codes.h), multiplied as the integers that it holds. With codes counted from
/// the middle z of their range, an element is (code - z) s + o; a row, or a part of it, is rounded to int8: x = a c,
/// a = max |x| / 127. Sums of integers are exact in any order, so an output's bits are fixed by
///
///   a scale for all lanes    x s is rounded at once:    y = fma(a, float(sum c (code - z)), sum x o)
///   a scale for each lane    x is rounded for each group of inner elements; from zero, group after group,
///                            y <- fma(a s, float(sum c (code - z)), y),   y <- fma(o, sum x, y)
///
/// where the sums of x are sixteen chains of fused multiply-adds, added up in the fixed tree of Lanes::sum.
template <class L>
class CodeProduct {
 public:
  /// Of tiles that are multiplied (TileCodes::is_multiplied). scratch [4 * 64 * dim rounded up to 16].
  CodeProduct(const TileCodes& codes, TileSide side, std::int64_t dim, float* scratch)
      : bits_(codes.bits),
        inner_(TileCodes::inner(side, dim)),
        panel_quads_(TileCodes::panel_quads(side, dim)),
        n_quads_(TileCodes::n_quads(side, dim)),
        scales_(codes, side, dim, scratch),
        codes_(reinterpret_cast<std::int8_t*>(scratch + 2 * kBlockTokens * round_up(dim, kPanel))) {}

  /// The tile that `run` multiplies from now on.
  void set_tile(const std::byte* tile) {
    tile_ = tile;
    scales_.read(tile, static_cast<float>(1 << (bits_ - 1)));
  }

  /// y[r][n] for the columns n of panels [first, first + n_panels); strides in floats.
  void run(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t first, std::int64_t n_panels,
           float* y, std::int64_t y_stride) {
    const Call call{
        .x = x, .x_stride = x_stride, .first = first, .end = first + n_panels, .y = y, .y_stride = y_stride};
    switch (bits_) {
      case 1: return rows<1>(call, n_rows);
      case 2: return rows<2>(call, n_rows);
      case 3: return rows<3>(call, n_rows);
      case 4: return rows<4>(call, n_rows);
      default: return rows<8>(call, n_rows);
    }
  }

 private:
  using Words = typename L::Words;
  static constexpr int kRows = 4;                            ///< as many as leave AVX2 registers for a quad of codes
  static constexpr int kMostVectors = 64, kMostGroups = 64;  ///< of an inner dimension of at most 1024

  struct Call {
    const float* x;
    std::int64_t x_stride, first, end;  ///< panels
    float* y;
    std::int64_t y_stride;
  };
  /// What became of a row: a, z times the sum of its c, the sum of x o or of x.
  struct Rounded {
    float scale, middle, rest;
  };

  template <int kBits>
  void rows(Call call, std::int64_t n_rows) {
    for (std::int64_t r = 0; r < n_rows;) {
      const std::int64_t n = n_rows - r < kRows ? n_rows - r : kRows;
      with_constant<kRows>(n, [&]<int R>() {
        if (scales_.per_lane) {
          of_lanes<kBits, R>(call);
        } else {
          of_panels<kBits, R>(call);
        }
      });
      r += n, call.x += n * call.x_stride, call.y += n * call.y_stride;
    }
  }

  template <int kBits, int R>
  [[gnu::noinline]] void of_panels(const Call& call) {
    for (std::int64_t p = call.first; p < call.end;) {
      const std::int64_t group = p / scales_.panels_that_share, slot = group * scales_.stretch;
      const std::int64_t next = (group + 1) * scales_.panels_that_share, end = next < call.end ? next : call.end;
      Rounded row[R];
      for (int r = 0; r < R; ++r) {
        row[r] = round<kBits>(call.x + r * call.x_stride, inner_, scales_.scales + slot, scales_.offsets + slot,
                              codes_ + r * inner_);
      }
      for (; p < end; ++p) {
        Words sums[R];
        dot<kBits, R>(p, 0, inner_, sums);
        for (int r = 0; r < R; ++r) {
          const L sum = sums[r].to_floats() - L::set1(row[r].middle);
          L::fma(L::set1(row[r].scale), sum, L::set1(row[r].rest)).store(output(call, r, p));
        }
      }
    }
  }

  template <int kBits, int R>
  [[gnu::noinline]] void of_lanes(const Call& call) {
    const std::int64_t group = scales_.inner_that_share < inner_ ? scales_.inner_that_share : inner_;
    Rounded row[kMostGroups][R];
    for (std::int64_t k = 0, g = 0; k < inner_; k += group, ++g) {
      for (int r = 0; r < R; ++r) {
        row[g][r] =
            round<kBits>(call.x + r * call.x_stride + k, length(k, group), nullptr, nullptr, codes_ + r * inner_ + k);
      }
    }
    for (std::int64_t p = call.first; p < call.end; ++p) {
      L y[R];
      for (int r = 0; r < R; ++r) y[r] = L::zero();
      for (std::int64_t k = 0, g = 0; k < inner_; k += group, ++g) {
        const std::int64_t slot = g * scales_.stretch + p * kPanel;
        const L scale = L::load(scales_.scales + slot), offset = L::load(scales_.offsets + slot);
        Words sums[R];
        dot<kBits, R>(p, k, length(k, group), sums);
        for (int r = 0; r < R; ++r) {
          const L sum = sums[r].to_floats() - L::set1(row[g][r].middle);
          y[r] = L::fma(L::set1(row[g][r].scale) * scale, sum, y[r]);
          y[r] = L::fma(offset, L::set1(row[g][r].rest), y[r]);
        }
      }
      for (int r = 0; r < R; ++r) y[r].store(output(call, r, p));
    }
  }

  std::int64_t length(std::int64_t first, std::int64_t group) const {
    return inner_ - first < group ? inner_ - first : group;
  }
  static float* output(const Call& call, int r, std::int64_t panel) {
    return call.y + r * call.y_stride + (panel - call.first) * kPanel;
  }

  /// Rounds n elements, times their scales where there are some, into codes. What is not finite makes the row's scale
  /// NaN, and all that comes of it.
  template <int kBits>
  Rounded round(const float* x, std::int64_t n, const float* scales, const float* offsets, std::int8_t* codes) const {
    // The usual length stays in registers.
    if (n == 4 * kPanel) return round_vectors<kBits, 4>(x, 4, scales, offsets, codes);
    return round_vectors<kBits, kMostVectors>(x, static_cast<int>(n / kPanel), scales, offsets, codes);
  }
  template <int kBits, int kMost>
  [[gnu::always_inline]] static Rounded round_vectors(const float* x, int n, const float* scales, const float* offsets,
                                                      std::int8_t* codes) {
    if constexpr (kMost == 4) n = 4;
    L scaled[kMost], largest = L::zero(), rest = L::zero();
    for (int v = 0; v < n; ++v) {
      const L element = L::load(x + 16 * v);
      rest = scales ? L::fma(element, L::load(offsets + 16 * v), rest) : rest + element;
      scaled[v] = scales ? element * L::load(scales + 16 * v) : element;
      largest = L::max(largest, (Words::bits_of(scaled[v]) & 0x7fffffffu).as_floats());
    }
    const float most = largest.largest(), sum_of_rest = rest.sum();
    if (!(most < kInfinity && sum_of_rest == sum_of_rest)) {
      std::memset(codes, 0, static_cast<std::size_t>(16 * n));
      return {__builtin_nanf(""), 0.0f, sum_of_rest};
    }
    const L inverse = L::set1(most > 0x1p-120f ? 127.0f / most : 0.0f);
    L sum = L::zero();
    for (int v = 0; v < n; ++v) {
      const L code = L::round(scaled[v] * inverse);
      sum = sum + code;  // exact
      code.store_int8(codes + 16 * v);
    }
    // The bytes of 8 bits are made signed, which takes the middle off.
    constexpr float kMiddle = kBits == 8 ? 0.0f : static_cast<float>(1 << (kBits - 1));
    return {most / 127.0f, kMiddle * sum.sum(), sum_of_rest};
  }

  /// Sums of a panel's codes times those of R rows, over n inner elements from k on.
  template <int kBits, int R>
  [[gnu::always_inline]] void dot(std::int64_t panel, std::int64_t k, std::int64_t n, Words (&sums)[R]) const {
    const std::int8_t* x = codes_ + k;
    std::int64_t quad = panel * panel_quads_ + k / 4;
    const std::int64_t end = quad + n / 4;
    for (int r = 0; r < R; ++r) sums[r] = Words::bits_of(L::zero());
    for (; quad + 8 <= end; quad += 8, x += 32) add<kBits, R, 8>(quad, x, sums);
    if (quad < end) add<kBits, R, 4>(quad, x, sums);
  }

  template <int kBits, int R, int kQuads>
  [[gnu::always_inline]] void add(std::int64_t first, const std::int8_t* x, Words (&sums)[R]) const {
    constexpr int kTerms = L::template kDotTerms<kBits>;
    const auto quads = Quads<L, kBits>::at(tile_, n_quads_, first);
    Words run[R];
#pragma GCC unroll 8
    for (int i = 0; i < kQuads; ++i) {
      Words codes = quads[i];
      if constexpr (kBits == 8) codes = codes ^ 0x80808080u;
      for (int r = 0; r < R; ++r) {
        std::int32_t four;
        std::memcpy(&four, x + r * inner_ + 4 * i, sizeof four);
        const Words products = L::template dot<kBits>(codes, four);
        run[r] = i % kTerms == 0 ? products : L::dot_add(run[r], products);
        if ((i + 1) % kTerms == 0 || i + 1 == kQuads) sums[r] = sums[r] + L::dot_sums(run[r]);
      }
    }
  }

  static constexpr float kInfinity = __builtin_inff();

  const std::byte* tile_ = nullptr;
  const int bits_;
  const std::int64_t inner_, panel_quads_, n_quads_;
  TileScales<L> scales_;
  std::int8_t* codes_;  ///< [kRows][inner]
};

}  // namespace mneme::kernels
