#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace mneme {

/// The discrete Fourier transform of n real numbers, X[k] = sum over j of x[j] exp(-2 pi i j k / n), for any n.
/// Halved as long as n is even (Cooley & Tukey 1965), summed directly from there on: 400 numbers cost 13,000 products.
class Fourier {
 public:
  /// n from 1 on.
  explicit Fourier(std::int64_t n);

  std::int64_t size() const noexcept { return n_; }
  /// x [n] -> X [n]. Any number of threads may call it, each with memory of its own.
  void transform(const double* x, std::complex<double>* out) const { transform(x, 1, n_, out); }

 private:
  void transform(const double* x, std::int64_t stride, std::int64_t n, std::complex<double>* out) const;

  std::int64_t n_;
  std::vector<std::complex<double>> turns_;  // exp(-2 pi i k / n)
};

}  // namespace mneme
