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
  static constexpr int kDirectRows = 3;
  template <int R>
  static constexpr int kDirectPanels = panels_beside(L::kDirectSums / (2 * R));

  static void widen(const Element* w, std::int64_t n, float* out) {
    for (std::int64_t k = 0; k < n; k += 32) {
      for (std::int64_t i = k; i < k + 16; ++i) {
        const Element* pairs = w + (2 * i - k) * kPanel;
        L::load_even(pairs).store(out + i * kPanel);
        L::load_odd(pairs).store(out + (i + 16) * kPanel);
      }
    }
  }

  template <int R, int P>
  [[gnu::always_inline]] static void extend(Tile<L, R, P>& sums, const float* x, std::int64_t x_stride, const float* w,
                                            std::int64_t w_stride, std::int64_t n) {
    const auto load = [](const float* lanes) { return L::load(lanes); };
    for (std::int64_t k = 0; k < n; k += 32) {
      auto even = Tile<L, R, P>::zero(), odd = Tile<L, R, P>::zero();
      even.chain(x + k, x_stride, w + k * kPanel, w_stride, 16, load);
      odd.chain(x + k + 16, x_stride, w + (k + 16) * kPanel, w_stride, 16, load);
      add(sums, even, odd);
    }
  }

  template <int R, int P>
  [[gnu::always_inline]] static void extend(Tile<L, R, P>& sums, const float* x, std::int64_t x_stride,
                                            const Element* w, std::int64_t w_stride, std::int64_t n) {
    for (std::int64_t k = 0; k < n; k += 32) {
      auto even = Tile<L, R, P>::zero(), odd = Tile<L, R, P>::zero();
      for (std::int64_t i = 0; i < 16; ++i) {
        // First all of the even, then all of the odd products: both at once are more than sixteen registers hold.
        const Element* pairs = w + (k + 2 * i) * kPanel;
        L weights[P];
        for (int p = 0; p < P; ++p) weights[p] = L::load_even(pairs + p * w_stride);
        for (int r = 0; r < R; ++r) {
          const L value = L::set1(x[r * x_stride + k + i]);
          for (int p = 0; p < P; ++p) even.at[r][p] = L::fma(value, weights[p], even.at[r][p]);
        }
        for (int p = 0; p < P; ++p) weights[p] = L::load_odd(pairs + p * w_stride);
        for (int r = 0; r < R; ++r) {
          const L value = L::set1(x[r * x_stride + k + 16 + i]);
          for (int p = 0; p < P; ++p) odd.at[r][p] = L::fma(value, weights[p], odd.at[r][p]);
        }
      }
      add(sums, even, odd);
    }
  }

 private:
  template <int R, int P>
  [[gnu::always_inline]] static void add(Tile<L, R, P>& sums, const Tile<L, R, P>& even, const Tile<L, R, P>& odd) {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) sums.at[r][p] = sums.at[r][p] + (even.at[r][p] + odd.at[r][p]);
    }
  }
};

}  // namespace mneme::kernels
