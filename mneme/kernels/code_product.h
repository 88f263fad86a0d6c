#pragma once

#include <cstring>

#include "mneme/kernels/code_scales.h"
#include "mneme/kernels/product_float.h"
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
///
/// e4m3 numbers e, whose tile has one scale, are multiplied as floats: y = (256 s) sum x (e / 256), the sum one chain
/// of fused multiply-adds.
template <class L>
class CodeProduct {
 public:
  /// Of tiles that are multiplied (TileCodes::is_multiplied). scratch [4 * 64 * dim rounded up to 16].
  CodeProduct(const TileCodes& codes, TileSide side, std::int64_t dim, float* scratch)
      : is_float8_(codes.kind == CodeKind::kFloat8),
        bits_(codes.bits),
        inner_(TileCodes::inner(side, dim)),
        panel_quads_(TileCodes::panel_quads(side, dim)),
        n_quads_(TileCodes::n_quads(side, dim)),
        scales_(codes, side, dim, scratch),
        codes_(reinterpret_cast<std::int8_t*>(scratch + 2 * kBlockTokens * round_up(dim, kPanel))) {}

  /// The tile that `run` multiplies from now on, and the one that comes after it: its lines are asked for one by one
  /// meanwhile, since a processor waits where many are asked for at once.
  void set_tile(const std::byte* tile, const std::byte* next) {
    tile_ = tile;
    next_ = next;
    scales_.read(tile, static_cast<float>(1 << (bits_ - 1)));
    scales_.ask_for(next);
  }

  /// y[r][n] for the columns n of panels [first, first + n_panels); strides in floats.
  void run(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t first, std::int64_t n_panels,
           float* y, std::int64_t y_stride) {
    if (is_float8_) return float8(x, x_stride, n_rows, first, n_panels, y, y_stride);
    for (std::int64_t p = 0; p < n_panels; p += kMostPanels) {
      const std::int64_t rest = n_panels - p;
      const Call call{.x = x,
                      .x_stride = x_stride,
                      .first = first + p,
                      .end = first + p + (rest < kMostPanels ? rest : kMostPanels),
                      .y = y + p * kPanel,
                      .y_stride = y_stride};
      switch (bits_) {
        case 1: rows<1>(call, n_rows); break;
        case 2: rows<2>(call, n_rows); break;
        case 3: rows<3>(call, n_rows); break;
        case 4: rows<4>(call, n_rows); break;
        default: rows<8>(call, n_rows); break;
      }
    }
  }

 private:
  using Words = typename L::Words;
  static constexpr int kRows = L::kDotRows < 4 ? L::kDotRows : 4;
  static constexpr int kMostVectors = 64, kMostGroups = 64;  ///< of an inner dimension of at most 1024
  static constexpr std::int64_t kMostPanels = 8;             ///< that rows are rounded for at a time

  struct Call {
    const float* x;
    std::int64_t x_stride, first, end;  ///< panels
    float* y;
    std::int64_t y_stride;
  };
  /// What became of a row: a, the sum of its c, the sum of x o or of x.
  struct Rounded {
    float scale;
    std::int32_t codes;
    float rest;
  };

  void float8(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t first, std::int64_t n_panels,
              float* y, std::int64_t y_stride) const {
    const std::int64_t panel_bytes = panel_quads_ * 64;
    for (int line = 0; line < 16; ++line) __builtin_prefetch(next_ + first * panel_bytes + line * 64);
    TiledProduct<L, Float8Format<L>>::product({.x = x,
                                               .x_stride = x_stride * std::int64_t{sizeof(float)},
                                               .panels = tile_ + first * panel_bytes,
                                               .y = y,
                                               .y_stride = y_stride,
                                               .n_rows = n_rows,
                                               .inner = inner_,
                                               .n_panels = n_panels});
    const L scale = L::set1(scales_.scales[0]);
    for (std::int64_t r = 0; r < n_rows; ++r) {
      for (std::int64_t i = 0; i < n_panels * kPanel; i += 16) {
        float* lanes = y + r * y_stride + i;
        (L::load(lanes) * scale).store(lanes);
      }
    }
  }

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

  /// All rows are rounded for all groups of panels first: products need not wait for one rounding after another.
  template <int kBits, int R>
  [[gnu::noinline]] void of_panels(const Call& call) {
    const std::int64_t share = scales_.panels_that_share, first_group = call.first / share;
    Rounded row[kMostPanels][R];
    std::int8_t* codes = codes_;
    for (std::int64_t g = 0; (first_group + g) * share < call.end; ++g) {
      const std::int64_t slot = (first_group + g) * scales_.stretch;
      for (int r = 0; r < R; ++r, codes += inner_) {
        row[g][r] =
            round<kBits>(call.x + r * call.x_stride, inner_, scales_.scales + slot, scales_.offsets + slot, codes);
      }
    }
    for (std::int64_t p = call.first; p < call.end;) {
      const std::int64_t g = p / share - first_group, next = (first_group + g + 1) * share;
      with_panels<L::kDotSums / R>((next < call.end ? next : call.end) - p, [&]<int P>() {
        panels<kBits, R, P>(call, p, codes_ + g * R * inner_, row[g]);
        p += P;
      });
    }
  }

  /// Calls f with 4, 2 or 1 of n panels, of those for whose sums there is room.
  template <int kRoom, class F>
  [[gnu::always_inline]] static void with_panels(std::int64_t n, F f) {
    if constexpr (kRoom >= 4) {
      if (n >= 4) return f.template operator()<4>();
    }
    if constexpr (kRoom >= 2) {
      if (n >= 2) return f.template operator()<2>();
    }
    f.template operator()<1>();
  }

  /// P panels whose inner elements have the same scales.
  template <int kBits, int R, int P>
  [[gnu::always_inline]] void panels(const Call& call, std::int64_t first, const std::int8_t* codes,
                                     const Rounded (&row)[R]) const {
    Words sums[P][R];
    dot<kBits, R, P>(first, 0, inner_, codes, row, sums);
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        L::fma(L::set1(row[r].scale), sums[p][r].to_floats(), L::set1(row[r].rest)).store(output(call, r, first + p));
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
    for (std::int64_t p = call.first; p < call.end;) {
      with_panels<L::kDotSums / (2 * R)>(call.end - p, [&]<int P>() {
        lanes<kBits, R, P>(call, p, group, row);
        p += P;
      });
    }
  }

  template <int kBits, int R, int P>
  [[gnu::always_inline]] void lanes(const Call& call, std::int64_t first, std::int64_t group,
                                    const Rounded (&row)[kMostGroups][R]) const {
    auto y = Tile<L, P, R>::zero();
    for (std::int64_t k = 0, g = 0; k < inner_; k += group, ++g) {
      Words sums[P][R];
      dot<kBits, R, P>(first, k, length(k, group), codes_ + k, row[g], sums);
      for (int p = 0; p < P; ++p) {
        const std::int64_t slot = g * scales_.stretch + (first + p) * kPanel;
        const L scale = L::load(scales_.scales + slot), offset = L::load(scales_.offsets + slot);
        for (int r = 0; r < R; ++r) {
          y.at[p][r] = L::fma(L::set1(row[g][r].scale) * scale, sums[p][r].to_floats(), y.at[p][r]);
          y.at[p][r] = L::fma(offset, L::set1(row[g][r].rest), y.at[p][r]);
        }
      }
    }
    for (int p = 0; p < P; ++p) {
      for (int r = 0; r < R; ++r) y.at[p][r].store(output(call, r, first + p));
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
    if (!(most < kInfinity && sum_of_rest - sum_of_rest == 0)) {
      std::memset(codes, 0, static_cast<std::size_t>(16 * n));
      return {__builtin_nanf(""), 0, sum_of_rest};
    }
    const L inverse = L::set1(most > 0x1p-120f ? 127.0f / most : 0.0f);
    L sum = L::zero();
    for (int v = 0; v < n; ++v) {
      const L code = L::round(scaled[v] * inverse);
      sum = sum + code;  // exact
      code.store_int8(codes + 16 * v);
    }
    return {most / 127.0f, static_cast<std::int32_t>(sum.sum()), sum_of_rest};
  }

  /// Sums of the codes of P panels, counted from the middle, times those of R rows, over n inner elements from k on.
  template <int kBits, int R, int P>
  [[gnu::always_inline]] void dot(std::int64_t panel, std::int64_t k, std::int64_t n, const std::int8_t* x,
                                  const Rounded (&row)[R], Words (&sums)[P][R]) const {
    for (int p = 0; p < P; ++p) {
      for (int r = 0; r < R; ++r) sums[p][r] = Words::set1(0);
    }
    std::int64_t quad = panel * panel_quads_ + k / 4;
    const std::int64_t end = quad + n / 4;
    for (; quad + 8 <= end; quad += 8, x += 32) add<kBits, R, P, 8>(quad, x, sums);
    if (quad < end) add<kBits, R, P, 4>(quad, x, sums);
    constexpr std::int32_t kMiddle = kSignedBytes<kBits> ? 0 : 1 << (kBits - 1);
    if constexpr (kMiddle == 0) return;
    for (int r = 0; r < R; ++r) {
      const Words middle = Words::set1(-kMiddle * row[r].codes);
      for (int p = 0; p < P; ++p) sums[p][r] = sums[p][r] + middle;
    }
  }

  template <int kBits, int R, int P, int kQuads>
  [[gnu::always_inline]] void add(std::int64_t first, const std::int8_t* x, Words (&sums)[P][R]) const {
    constexpr int kTerms = L::template kDotTerms<kBits>;
    Quads<L, kBits> quads[P];
    for (int p = 0; p < P; ++p) {
      quads[p] = Quads<L, kBits>::at(tile_, n_quads_, first + p * panel_quads_);
      for (int line = 0; line < kQuads * kBits / 8; ++line)
        __builtin_prefetch(next_ + (quads[p].low - tile_) + line * 64);
    }
    Words run[P][R];
#pragma GCC unroll 8
    for (int i = 0; i < kQuads; ++i) {
      for (int p = 0; p < P; ++p) {
        Words codes = quads[p][i];
        if constexpr (kSignedBytes<kBits>) codes = codes ^ 0x80808080u;
        for (int r = 0; r < R; ++r) {
          std::int32_t four;
          std::memcpy(&four, x + r * inner_ + 4 * i, sizeof four);
          if constexpr (L::kIntegerDots) {
            sums[p][r] = L::template dot_add<kBits>(sums[p][r], codes, four);
          } else {
            run[p][r] = i % kTerms == 0 ? L::template dot<kBits>(codes, four)
                                        : L::template dot_add<kBits>(run[p][r], codes, four);
            if ((i + 1) % kTerms == 0 || i + 1 == kQuads) sums[p][r] = sums[p][r] + L::dot_sums(run[p][r]);
          }
        }
      }
    }
  }

  /// Codes of 8 bits become signed bytes where dot products want those, which takes their middle off.
  template <int kBits>
  static constexpr bool kSignedBytes = kBits == 8 && L::kSignedDots;
  static constexpr float kInfinity = __builtin_inff();

  const std::byte *tile_ = nullptr, *next_ = nullptr;
  const bool is_float8_;
  const int bits_;
  const std::int64_t inner_, panel_quads_, n_quads_;
  TileScales<L> scales_;
  std::int8_t* codes_;  ///< [groups of panels][kRows][inner]
};

}  // namespace mneme::kernels
