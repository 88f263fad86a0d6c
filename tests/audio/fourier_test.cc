#include "mneme/audio/fourier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace mneme {
namespace {

TEST(Fourier, IsItsDefinitionForEverySize) {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 8, 12, 25, 50, 64, 100, 400, 402, 512}) {
    std::vector<double> x;
    for (std::int64_t j = 0; j < n; ++j) x.push_back(std::sin(0.7 * static_cast<double>(j * j)) + 0.1);
    std::vector<std::complex<double>> out(x.size());
    const Fourier fourier(n);
    EXPECT_EQ(fourier.size(), n);
    fourier.transform(x.data(), out.data());
    for (std::int64_t k = 0; k < n; ++k) {
      std::complex<double> expected = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const double turns = static_cast<double>(j * k % n) / static_cast<double>(n);
        expected += x[static_cast<std::size_t>(j)] * std::polar(1.0, -2 * std::numbers::pi * turns);
      }
      EXPECT_LT(std::abs(out[static_cast<std::size_t>(k)] - expected), 1e-11) << k << " of " << n;
    }
  }
}

}  // namespace
}  // namespace mneme
