#pragma once

#include "mneme/kernels/product.h"

/// Products by register tiles: the part that float32, float16 and bfloat16 panels share on everything but AMX.
///
/// A Format adds to what product.h asks of it
///
///   using Element;                     // of panels as stored
///   static constexpr int kDirectRows;  // up to so many rows read panels as stored,
///   template <int R> kDirectPanels;    // so many side by side where there are R rows
///   static constexpr bool kWidens;     // more rows read what widen makes of n inner elements:
///   static void widen(const Element* w, std::int64_t n, float* out);
///   static void extend(Tile& sums, const float* x, std::int64_t x_stride,
///                      const Element* or const float* w, std::int64_t w_stride, std::int64_t n);
///
/// `extend` continues the sums over n more inner elements, of panels as stored or widened.
namespace mneme::kernels {

/// Sums of R rows by P panels.
template <class L, int R, int P>
struct Tile {
  L at[R][P];

  [[gnu::always_inline]] static Tile zero() {
    Tile t;
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) t.at[r][p] = L::zero();
    }
    return t;
  }
  [[gnu::always_inline]] static Tile load(const float* y, std::int64_t stride) {
    Tile t;
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) t.at[r][p] = L::load(y + r * stride + p * kPanel);
    }
    return t;
  }
  [[gnu::always_inline]] void store(float* y, std::int64_t stride) const {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) at[r][p].store(y + r * stride + p * kPanel);
    }
  }

  /// at[r][p] <- fma(x[r][k], w[p][k], at[r][p]) for k = 0 .. n - 1. Strides are in elements, weights of k and
  /// k + 1 are kStep apart, and load(w) gives 16 lanes.
  template <std::int64_t kStep, class Element, class Load>
  [[gnu::always_inline]] void chain(const float* x, std::int64_t x_stride, const Element* w, std::int64_t w_stride,
                                    std::int64_t n, Load load_lanes) {
    Tile t = *this;
#pragma GCC unroll 1
    for (std::int64_t k = 0; k < n; ++k) {
      L weights[P];
      for (int p = 0; p < P; ++p) weights[p] = load_lanes(w + p * w_stride + k * kStep);
      for (int r = 0; r < R; ++r) {
        const L value = L::set1(x[r * x_stride + k]);
        for (int p = 0; p < P; ++p) t.at[r][p] = L::fma(value, weights[p], t.at[r][p]);
      }
    }
    *this = t;
  }
};

/// Panels read side by side where the registers have room for n: enough chains to hide the latency of an addition, no
/// more streams than a processor prefetches.
constexpr int panels_beside(int n) { return n < 1 ? 1 : n < 4 ? n : 4; }

/// Asks for all lines of some bytes.
[[gnu::always_inline]] inline void ask_for(const std::byte* from, std::int64_t n_bytes) {
  for (std::int64_t i = 0; i < n_bytes; i += 64) __builtin_prefetch(from + i);
}

/// Calls f with the compile-time constant n of 1 .. kMax.
template <int kMax, class F>
[[gnu::always_inline]] inline void with_constant(std::int64_t n, F f) {
  if constexpr (kMax > 1) {
    if (n < kMax) return with_constant<kMax - 1>(n, f);
  }
  f.template operator()<kMax>();
}

/// How many of the rest of the rows a tile of at most kMost takes: the last two share what is left.
template <int kMost>
[[gnu::always_inline]] constexpr std::int64_t rows_of_tile(std::int64_t rest) {
  return rest >= 2 * kMost ? kMost : rest > kMost ? (rest + 1) / 2 : rest;
}

template <class L, class Format>
struct TiledProduct {
  using Element = typename Format::Element;
  static constexpr int kRows = L::kTileRows, kPanels = L::kTilePanels;
  /// A block of inner elements and rows: widened panels and sums stay in the first-level cache, the rows in the second.
  static constexpr std::int64_t kInnerBlock = 256, kRowBlock = 96;

  [[gnu::always_inline]] static const float* row(const ProductArgs& args, std::int64_t m) {
    return reinterpret_cast<const float*>(static_cast<const char*>(args.x) + m * args.x_stride);
  }

  static void product(const ProductArgs& args) noexcept {
    if (args.n_rows <= 0) return;
    if (args.n_rows <= Format::kDirectRows) {
      with_constant<Format::kDirectRows>(args.n_rows, [&]<int R>() { direct<R>(args); });
    } else {
      blocked(args);
    }
  }

  /// All of the inner dimension at once, straight from storage. Inlined into attention it would not get the registers.
  template <int R>
  [[gnu::noinline]] static void direct(const ProductArgs& args) {
    constexpr int kWide = Format::template kDirectPanels<R>;
    std::int64_t p = 0;
    for (; p + kWide <= args.n_panels; p += kWide) direct_panels<R, kWide>(args, p);
    for (; p < args.n_panels; ++p) direct_panels<R, 1>(args, p);
  }

  template <int R, int P>
  [[gnu::always_inline]] static void direct_panels(const ProductArgs& args, std::int64_t p) {
    const std::int64_t inner = padded_inner(Format::kFormat, args.inner), panel = inner * kPanel;
    float* const y = args.y + p * kPanel;
    auto sums = args.adds ? Tile<L, R, P>::load(y, args.y_stride) : Tile<L, R, P>::zero();
    Format::extend(sums, row(args, 0), args.x_stride / 4, static_cast<const Element*>(args.panels) + p * panel, panel,
                   inner);
    sums.store(y, args.y_stride);
  }

  static void blocked(const ProductArgs& args) {
    for (std::int64_t m = 0; m < args.n_rows; m += kRowBlock) {
      const std::int64_t n_rows = args.n_rows - m < kRowBlock ? args.n_rows - m : kRowBlock;
      std::int64_t p = 0;
      for (; p + kPanels <= args.n_panels; p += kPanels) block<kPanels>(args, m, n_rows, p);
      for (; p < args.n_panels; ++p) block<1>(args, m, n_rows, p);
    }
  }

  /// Some rows by P panels. Sums wait in memory from one block of inner elements to the next, which is exact.
  template <int P>
  static void block(const ProductArgs& args, std::int64_t m, std::int64_t n_rows, std::int64_t p) {
    const std::int64_t inner = padded_inner(Format::kFormat, args.inner), panel = inner * kPanel;
    alignas(64) float sums[kRowBlock * P * kPanel];
    std::int64_t k = 0;
    do {  // at least once: a product over nothing is zero
      const std::int64_t n = inner - k < kInnerBlock ? inner - k : kInnerBlock;
      const auto* w = static_cast<const Element*>(args.panels) + p * panel + k * kPanel;
      float* const y = args.y + m * args.y_stride + p * kPanel;
      const Span span{.x = row(args, m) + k,
                      .x_stride = args.x_stride / 4,
                      .n = n,
                      .from = k > 0       ? sums
                              : args.adds ? y
                                          : nullptr,
                      .from_stride = k > 0 ? P * kPanel : args.y_stride,
                      .to = k + n < inner ? sums : y,
                      .to_stride = k + n < inner ? P * kPanel : args.y_stride};
      if constexpr (Format::kWidens) {
        alignas(64) float widened[P][kInnerBlock * kPanel];
        for (int i = 0; i < P; ++i) Format::widen(w + i * panel, n, widened[i]);
        span_rows<P>(span, n_rows, widened[0], kInnerBlock * kPanel);
      } else {
        span_rows<P>(span, n_rows, w, panel);
      }
      k += n;
    } while (k < inner);
  }

  /// One block of inner elements: sums go on from some, or from zero.
  struct Span {
    const float* x;
    std::int64_t x_stride, n;
    const float* from;  ///< null: zero
    std::int64_t from_stride;
    float* to;
    std::int64_t to_stride;
  };

  template <int P>
  static void span_rows(const Span& span, std::int64_t n_rows, const float* w, std::int64_t w_stride) {
    for (std::int64_t m = 0; m < n_rows;) {
      const std::int64_t n = rows_of_tile<kRows>(n_rows - m);
      with_constant<kRows>(n, [&]<int R>() { span_tile<R, P>(span, m, w, w_stride); });
      m += n;
    }
  }

  template <int R, int P>
  [[gnu::noinline]] static void span_tile(const Span& span, std::int64_t m, const float* w, std::int64_t w_stride) {
    auto tile =
        span.from ? Tile<L, R, P>::load(span.from + m * span.from_stride, span.from_stride) : Tile<L, R, P>::zero();
    Format::extend(tile, span.x + m * span.x_stride, span.x_stride, w, w_stride, span.n);
    tile.store(span.to + m * span.to_stride, span.to_stride);
  }
};

}  // namespace mneme::kernels
