#include "mneme/audio/fourier.h"

#include <cmath>
#include <numbers>

namespace mneme {

Fourier::Fourier(std::int64_t n) : n_(n) {
  for (std::int64_t k = 0; k < n; ++k) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    turns_.emplace_back(std::cos(angle), std::sin(angle));
  }
}

/// n numbers x[0], x[stride], ..; n * stride is the whole size, so exp(-2 pi i k / n) is turns_[k * stride].
void Fourier::transform(const double* x, std::int64_t stride, std::int64_t n, std::complex<double>* out) const {
  if (n % 2 != 0) {
    for (std::int64_t k = 0; k < n; ++k) {
      double real = 0, imaginary = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::complex<double> turn = turns_[static_cast<std::size_t>(j * k % n * stride)];
        real += x[j * stride] * turn.real();
        imaginary += x[j * stride] * turn.imag();
      }
      out[k] = {real, imaginary};
    }
    return;
  }
  const std::int64_t half = n / 2;
  transform(x, 2 * stride, half, out);
  transform(x + stride, 2 * stride, half, out + half);
  for (std::int64_t k = 0; k < half; ++k) {
    const std::complex<double> a = out[k], b = out[half + k], turn = turns_[static_cast<std::size_t>(k * stride)];
    const std::complex<double> turned{b.real() * turn.real() - b.imag() * turn.imag(),
                                      b.real() * turn.imag() + b.imag() * turn.real()};
    out[k] = a + turned;
    out[half + k] = a - turned;
  }
}

}  // namespace mneme
