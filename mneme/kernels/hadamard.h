#pragma once

#include <cstdint>

#include "mneme/kernels/kernels.h"

namespace mneme::kernels {

/// Sums and differences of elements that lie `half` apart, for every pair of n elements.
inline void hadamard_step(float* x, std::int64_t n, std::int64_t half) noexcept {
  for (std::int64_t first = 0; first < n; first += 2 * half) {
    for (std::int64_t i = first; i < first + half; ++i) {
      const float a = x[i], b = x[i + half];
      x[i] = a + b;
      x[i + half] = a - b;
    }
  }
}

/// The same inside a register.
template <class L, int kHalf>
[[gnu::always_inline]] inline L hadamard_step(L x) noexcept {
  alignas(64) static constexpr auto kSigns = [] {
    struct {
      float of[16];
    } signs{};
    for (int i = 0; i < 16; ++i) signs.of[i] = i & kHalf ? -1.0f : 1.0f;
    return signs;
  }();
  return L::fma(x, L::load(kSigns.of), L::template exchanged<kHalf>(x));
}

/// Multiplies rows by an orthonormal Hadamard matrix, in place: x <- x H with H = H_p / sqrt(p) (Sylvester's), applied
/// to each run of p channels, where p is the largest power of two that divides n. H is its own inverse. It spreads one
/// large channel over all, so that few bits serve a row better; the same bits on every instruction set, since each sum
/// has two terms.
template <class L>
void hadamard(float* x, std::int64_t n) noexcept {
  const std::int64_t p = n & -n;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(p));
  if (p < kPanel) {
    for (std::int64_t half = 1; half < p; half *= 2) hadamard_step(x, n, half);
    for (std::int64_t i = 0; i < n; ++i) x[i] *= scale;
    return;
  }
  for (std::int64_t i = 0; i < n; i += kPanel) {
    const L two = hadamard_step<L, 2>(hadamard_step<L, 1>(L::load(x + i)));
    hadamard_step<L, 8>(hadamard_step<L, 4>(two)).store(x + i);
  }
  for (std::int64_t half = kPanel; half < p; half *= 2) {
    for (std::int64_t first = 0; first < n; first += 2 * half) {
      for (std::int64_t i = first; i < first + half; i += kPanel) {
        const L a = L::load(x + i), b = L::load(x + i + half);
        (a + b).store(x + i);
        (a - b).store(x + i + half);
      }
    }
  }
  for (std::int64_t i = 0; i < n; i += kPanel) (L::load(x + i) * L::set1(scale)).store(x + i);
}

}  // namespace mneme::kernels
