#pragma once

#include "mneme/kernels/code_dots.h"
#include "mneme/kernels/code_scales.h"
#include "mneme/kernels/product_float.h"
#include "mneme/kernels/rounded_rows.h"

namespace mneme::kernels {

/// Rows of floats times encoded tiles (codes.h), multiplied as the integers that they hold. With codes counted from the
/// middle z of their range, an element is (code - z) s + o; a row, or a part of it, is rounded to int8: x = a c,
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
///
/// A product that is added to what y held before does so last: y <- fma(y, c, product), c being a number for each row.
template <class L>
class CodeProduct {
 public:
  /// y[r][n] for the columns n of a tile's panels [first, first + n_panels); strides in floats. Meanwhile the tile
  /// `next` is asked for line by line, since a processor waits where many are asked for at once, and so are the
  /// `n_scale_bytes` at `next_scales`: what the jobs after it read.
  struct Job {
    const std::byte *tile, *next, *next_scales;
    std::int64_t n_scale_bytes;
    const float* x = nullptr;
    std::int64_t x_stride = 0, n_rows = 0, first = 0, n_panels = 0;
    float* y = nullptr;
    std::int64_t y_stride = 0;
    const float* c = nullptr;  ///< [n_rows]; null: y is set
  };

  static constexpr int kMostTiles = 2;  ///< whose scales are read at a time

  /// Of tiles that are multiplied (TileCodes::is_multiplied). scratch [4 * 64 * dim rounded up to 16].
  CodeProduct(const TileCodes& codes, TileSide side, std::int64_t dim, float* scratch)
      : is_float8_(codes.kind == CodeKind::kFloat8),
        bits_(codes.bits),
        inner_(TileCodes::inner(side, dim)),
        panel_quads_(TileCodes::panel_quads(side, dim)),
        n_quads_(TileCodes::n_quads(side, dim)),
        scales_(codes, side, dim, scratch),
        place_stride_(scales_.place_stride()),
        group_(scales_.inner_that_share < inner_ ? scales_.inner_that_share : inner_),
        codes_(reinterpret_cast<std::int8_t*>(scratch + 2 * kBlockTokens * round_up(dim, kPanel))) {}

  /// Does all of the jobs, which have one x_stride; those of few rows, as many each, go side by side.
  void run(const Job* jobs, int n) {
    const int groups = static_cast<int>(scales_.per_lane ? (inner_ + group_ - 1) / group_ : kMostPanels);
    const int most = kMostGroups / groups < kMostTiles ? kMostGroups / groups : kMostTiles;
    for (int i = 0; i < n; i += most) run_few(jobs + i, n - i < most ? n - i : most);
  }

 private:
  using Words = typename L::Words;
  static constexpr int kRows = L::kDotRows < 4 ? L::kDotRows : 4;
  static constexpr int kMostGroups = RoundedRows<L, 1, true>::kMostGroups;  ///< enough for any tile (is_multiplied)
  static constexpr std::int64_t kMostPanels = 8;

  /// A job of up to kRows rows and kMostPanels panels, whose scales are at a place of their own.
  struct Call {
    const Job* job;
    const float *scales, *offsets, *x;
    std::int64_t first, end;  ///< panels
    float* y;
    const float* c;
  };

  void run_few(const Job* jobs, int n) {
    bool side_by_side = jobs[0].n_rows <= kRows;
    std::int64_t n_panels = 0;
    for (int i = 0; i < n; ++i) {
      scales_.read(jobs[i].tile, static_cast<float>(1 << (bits_ - 1)), i);
      side_by_side = side_by_side && jobs[i].n_rows == jobs[0].n_rows && !is_float8_;
      n_panels = jobs[i].n_panels > n_panels ? jobs[i].n_panels : n_panels;
    }
    Call calls[kMostTiles];
    for (std::int64_t panel = 0; panel < n_panels; panel += kMostPanels) {
      int n_calls = 0;
      for (int i = 0; i < n; ++i) {
        const Job& job = jobs[i];
        if (panel >= job.n_panels) continue;
        const std::int64_t rest = job.n_panels - panel;
        calls[n_calls++] = {.job = &job,
                            .scales = scales_.scales + i * place_stride_,
                            .offsets = scales_.offsets + i * place_stride_,
                            .x = job.x,
                            .first = job.first + panel,
                            .end = job.first + panel + (rest < kMostPanels ? rest : kMostPanels),
                            .y = job.y + panel * kPanel,
                            .c = job.c};
      }
      if (side_by_side) {
        rows(calls, n_calls, jobs[0].n_rows);
        continue;
      }
      for (int i = 0; i < n_calls; ++i) rows_of(calls[i]);
    }
  }

  /// A few rows after another.
  void rows_of(Call call) {
    const Job& job = *call.job;
    if (is_float8_) return float8(call);
    for (std::int64_t r = 0; r < job.n_rows;) {
      const std::int64_t n = job.n_rows - r < kRows ? job.n_rows - r : kRows;
      rows(&call, 1, n);
      r += n, call.x += n * job.x_stride, call.y += n * job.y_stride;
      if (call.c) call.c += n;
    }
  }

  void rows(const Call* calls, int n, std::int64_t n_rows) {
    switch (bits_) {
      case 1: return rows<1>(calls, n, n_rows);
      case 2: return rows<2>(calls, n, n_rows);
      case 3: return rows<3>(calls, n, n_rows);
      case 4: return rows<4>(calls, n, n_rows);
      default: return rows<8>(calls, n, n_rows);
    }
  }
  template <int kBits>
  void rows(const Call* calls, int n, std::int64_t n_rows) {
    with_constant<kRows>(n_rows, [&]<int R>() {
      if (scales_.per_lane) {
        of_lanes<kBits, R>(calls, n);
      } else {
        of_panels<kBits, R>(calls, n);
      }
    });
  }

  void float8(const Call& call) const {
    const Job& job = *call.job;
    const std::int64_t panel_bytes = panel_quads_ * 64, n_panels = call.end - call.first;
    alignas(64) float products[kMaxAttendRows * kMostPanels * kPanel];
    ask_for(job.next + call.first * panel_bytes, n_panels * panel_bytes);
    TiledProduct<L, Float8Format<L>>::product({.x = call.x,
                                               .x_stride = job.x_stride * std::int64_t{sizeof(float)},
                                               .panels = job.tile + call.first * panel_bytes,
                                               .y = products,
                                               .y_stride = n_panels * kPanel,
                                               .n_rows = job.n_rows,
                                               .inner = inner_,
                                               .n_panels = n_panels});
    const L scale = L::set1(call.scales[0]);
    for (int r = 0; r < job.n_rows; ++r) {
      for (std::int64_t p = 0; p < n_panels; ++p) {
        put(L::load(products + (r * n_panels + p) * kPanel) * scale, call, r, call.first + p);
      }
    }
  }

  /// All rows are rounded for all groups of panels first: products need not wait for one rounding after another.
  template <int kBits, int R>
  [[gnu::noinline]] void of_panels(const Call* calls, int n) {
    const int share = static_cast<int>(scales_.panels_that_share);
    RoundedRows<L, R, true> rows;
    std::int8_t* codes = codes_;
    for (int i = 0; i < n; ++i) {
      const Call& call = calls[i];
      const int first = static_cast<int>(call.first) / share, end = static_cast<int>(call.end + share - 1) / share;
      for (int g = first; g < end; ++g, codes += R * inner_) {
        rows.add({.x = call.x,
                  .n = inner_,
                  .scales = call.scales + g * scales_.stretch,
                  .offsets = call.offsets + g * scales_.stretch,
                  .codes = codes});
      }
    }
    rows.round(calls->job->x_stride, CodeDots<L, kBits>::kZero);
    for (int i = 0, g = 0; i < n; ++i) {
      const Call& call = calls[i];
      ask_for(call.job->next_scales, call.job->n_scale_bytes);
      for (std::int64_t p = call.first; p < call.end; ++g) {
        const std::int64_t next = (p / share + 1) * share, end = next < call.end ? next : call.end;
        while (p < end) {
          with_panels<L::kDotSums / (CodeDots<L, kBits>::kLevels * R)>(end - p, [&]<int P>() {
            panels<kBits, R, P>(call, p, rows, g);
            p += P;
          });
        }
      }
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
  [[gnu::always_inline]] void panels(const Call& call, std::int64_t first, const RoundedRows<L, R, true>& rows,
                                     int g) const {
    Words sums[P][R];
    const auto& group = rows.group(g);
    dots<kBits>(call).template sum<R, P>(first, 0, group.n, group.codes, rows.middles(g), sums);
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        put(L::fma(L::set1(rows.scale(g, r)), sums[p][r].to_floats(), L::set1(rows.rest(g, r))), call, r, first + p);
      }
    }
  }

  template <int kBits, int R>
  [[gnu::noinline]] void of_lanes(const Call* calls, int n) {
    RoundedRows<L, R, false> rows;
    std::int8_t* codes = codes_;
    int first_group[kMostTiles];
    for (int i = 0; i < n; ++i) {
      first_group[i] = i > 0 && calls[i].x == calls[i - 1].x ? first_group[i - 1] : add_row<R>(rows, calls[i].x, codes);
    }
    rows.round(calls->job->x_stride, CodeDots<L, kBits>::kZero);
    for (int i = 0; i < n; ++i) {
      const Call& call = calls[i];
      ask_for(call.job->next_scales, call.job->n_scale_bytes);
      for (std::int64_t p = call.first; p < call.end;) {
        with_panels<L::kDotSums / ((1 + CodeDots<L, kBits>::kLevels) * R)>(call.end - p, [&]<int P>() {
          lanes<kBits, R, P>(call, p, rows, first_group[i]);
          p += P;
        });
      }
    }
  }
  /// The groups of R rows; returns the first.
  template <int R>
  int add_row(RoundedRows<L, R, false>& rows, const float* x, std::int8_t*& codes) const {
    int first = -1;
    for (std::int64_t k = 0; k < inner_; k += group_) {
      const std::int64_t length = inner_ - k < group_ ? inner_ - k : group_;
      const int g = rows.add({.x = x + k, .n = length, .scales = nullptr, .offsets = nullptr, .codes = codes});
      codes += R * length;
      if (first < 0) first = g;
    }
    return first;
  }

  template <int kBits, int R, int P>
  [[gnu::always_inline]] void lanes(const Call& call, std::int64_t first, const RoundedRows<L, R, false>& rows,
                                    int g) const {
    auto y = Tile<L, P, R>::zero();
    std::int64_t slot = first * kPanel;
    for (std::int64_t k = 0; k < inner_; k += group_, ++g, slot += scales_.stretch) {
      Words sums[P][R];
      const auto& part = rows.group(g);
      dots<kBits>(call).template sum<R, P>(first, k, part.n, part.codes, rows.middles(g), sums);
      for (int p = 0; p < P; ++p) {
        const L scale = L::load(call.scales + slot + p * kPanel), offset = L::load(call.offsets + slot + p * kPanel);
        for (int r = 0; r < R; ++r) {
          y.at[p][r] = L::fma(L::set1(rows.scale(g, r)) * scale, sums[p][r].to_floats(), y.at[p][r]);
          y.at[p][r] = L::fma(offset, L::set1(rows.rest(g, r)), y.at[p][r]);
        }
      }
    }
    for (int p = 0; p < P; ++p) {
      for (int r = 0; r < R; ++r) put(y.at[p][r], call, r, first + p);
    }
  }

  [[gnu::always_inline]] static void put(L product, const Call& call, int r, std::int64_t panel) {
    float* const y = call.y + r * call.job->y_stride + (panel - call.first) * kPanel;
    if (call.c) product = L::fma(L::load(y), L::set1(call.c[r]), product);
    product.store(y);
  }

  template <int kBits>
  CodeDots<L, kBits> dots(const Call& call) const {
    return {call.job->tile, call.job->next, n_quads_, panel_quads_};
  }

  const bool is_float8_;
  const int bits_;
  const std::int64_t inner_, panel_quads_, n_quads_;
  TileScales<L> scales_;
  const std::int64_t place_stride_, group_;  ///< group_: inner elements that share a lane's scale
  std::int8_t* codes_;                       ///< of rows rounded for kMostGroups groups
};

}  // namespace mneme::kernels
