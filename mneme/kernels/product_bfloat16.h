#pragma once

#include "mneme/kernels/tiles.h"

namespace mneme::kernels {

/// bfloat16 panels by fused multiply-adds, in the order of AMX: for each 32 inner elements
///
///   even = chain of x[2i] w[2i] from zero,  odd = chain of x[2i + 1] w[2i + 1] from zero,  sum <- sum + (even + odd)
///
/// A prepared row holds, for each 32 inner elements, the 16 even and then the 16 odd ones, rounded to bfloat16 and
/// widened to float32 again; `widen` puts a panel into the same order.
template <class L>
struct BFloat16Format {
  static constexpr DType kFormat = DType::kBFloat16;

  static std::int64_t prepared_bytes(std::int64_t inner) noexcept {
    return spread_row_bytes(padded_inner(kFormat, inner) * 4);
  }

  static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner,
                      void* out) noexcept {
    const std::int64_t bytes = prepared_bytes(inner);
    for (std::int64_t m = 0; m < n_rows; ++m) {
      auto* row = reinterpret_cast<float*>(static_cast<char*>(out) + m * bytes);
      for (std::int64_t k = 0; k < inner; k += 32) {
        const float* from = x + m * x_stride + k;
        const auto n = static_cast<int>(inner - k < 32 ? inner - k : 32);
        alignas(64) std::uint16_t pairs[32];
        L::load_first(from, n).store_bfloat16(pairs);
        L::load_first(from + 16, n - 16).store_bfloat16(pairs + 16);
        L::load_even(pairs).store(row + k);
        L::load_odd(pairs).store(row + k + 16);
      }
    }
  }

  static void product(const ProductArgs& args) noexcept { TiledProduct<L, BFloat16Format>::product(args); }

  using Element = std::uint16_t;
  static constexpr bool kWidens = true;
  static constexpr int kDirectRows = L::kTileRows;
  template <int R>
  static constexpr int kDirectPanels = panels_beside(L::kDirectSums / (R == 1 ? 2 : R));  // one row: pairs of sums

  static void widen(const Element* w, std::int64_t n, float* out) {
    for (std::int64_t k = 0; k < n; k += 32) {
      for (std::int64_t i = k; i < k + 16; ++i) {
        const Element* pairs = w + (2 * i - k) * kPanel;
        L::load_even(pairs).store(out + i * kPanel);
        L::load_odd(pairs).store(out + (i + 16) * kPanel);
      }
    }
  }

  /// Over panels as stored, where both chains pass through the same pairs, or as `widen` left them.
  template <class Weight, int R, int P>
  [[gnu::always_inline]] static void extend(Tile<L, R, P>& sums, const float* x, std::int64_t x_stride, const Weight* w,
                                            std::int64_t w_stride, std::int64_t n) {
    constexpr bool kAsStored = sizeof(Weight) == sizeof(Element);
    if constexpr (kAsStored && R == 1) return extend_row(sums, x, w, w_stride, n);
    constexpr std::int64_t kStep = kAsStored ? 2 * kPanel : kPanel, kToOdd = kAsStored ? 0 : 16 * kPanel;
    for (std::int64_t k = 0; k < n; k += 32) {
      auto even = Tile<L, R, P>::zero(), odd = Tile<L, R, P>::zero();
      even.template chain<kStep>(x + k, x_stride, w + k * kPanel, w_stride, 16, [](const Weight* lanes) {
        if constexpr (kAsStored && R <= kFromMemory) __builtin_prefetch(lanes + kAhead);
        return load_even(lanes);
      });
      odd.template chain<kStep>(x + k + 16, x_stride, w + k * kPanel + kToOdd, w_stride, 16,
                                [](const Weight* lanes) { return load_odd(lanes); });
      add(sums, even, odd);
    }
  }

 private:
  /// One row's chains go side by side, so that each pair is loaded once.
  template <int P>
  [[gnu::always_inline]] static void extend_row(Tile<L, 1, P>& sums, const float* x, const Element* w,
                                                std::int64_t w_stride, std::int64_t n) {
    for (std::int64_t k = 0; k < n; k += 32) {
      auto even = Tile<L, 1, P>::zero(), odd = Tile<L, 1, P>::zero();
      for (std::int64_t i = 0; i < 16; ++i) {
        const L x_even = L::set1(x[k + i]), x_odd = L::set1(x[k + 16 + i]);
        for (int p = 0; p < P; ++p) {
          const Element* pairs = w + p * w_stride + (k + 2 * i) * kPanel;
          __builtin_prefetch(pairs + kAhead);
          even.at[0][p] = L::fma(x_even, L::load_even(pairs), even.at[0][p]);
          odd.at[0][p] = L::fma(x_odd, L::load_odd(pairs), odd.at[0][p]);
        }
      }
      add(sums, even, odd);
    }
  }

  template <int R, int P>
  [[gnu::always_inline]] static void add(Tile<L, R, P>& sums, const Tile<L, R, P>& even, const Tile<L, R, P>& odd) {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) sums.at[r][p] = sums.at[r][p] + (even.at[r][p] + odd.at[r][p]);
    }
  }

  /// So few rows wait for memory, and ask for weights this many elements ahead.
  static constexpr int kFromMemory = 3, kAhead = 512;

  [[gnu::always_inline]] static L load_even(const float* lanes) { return L::load(lanes); }
  [[gnu::always_inline]] static L load_odd(const float* lanes) { return L::load(lanes); }
  [[gnu::always_inline]] static L load_even(const Element* pairs) { return L::load_even(pairs); }
  [[gnu::always_inline]] static L load_odd(const Element* pairs) { return L::load_odd(pairs); }
};

}  // namespace mneme::kernels
