#pragma once

#include <cstdint>

namespace mneme::kernels {

/// Multiplies rows by an orthonormal Hadamard matrix, in place: x <- x H with H = H_p / sqrt(p) (Sylvester's), applied
/// to each run of p channels, where p is the largest power of two that divides n. H is its own inverse. It spreads one
/// large channel over all, so that few bits serve a row better; the same bits on every instruction set, since each sum
/// has two terms.
template <class L>
void hadamard(float* x, std::int64_t n) noexcept {
  const std::int64_t p = n & -n;
  for (std::int64_t half = 1; half < p; half *= 2) {
    for (std::int64_t first = 0; first < n; first += 2 * half) {
      for (std::int64_t i = first; i < first + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(p));
  for (std::int64_t i = 0; i < n; ++i) x[i] *= scale;
}

}  // namespace mneme::kernels
