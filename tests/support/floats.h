#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace mneme::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Normally distributed, the same for the same seed.
inline std::vector<float> random_floats(std::int64_t n, unsigned seed, float deviation = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& x : values) x = normal(generator);
  return values;
}

/// For comparing bits: EXPECT_EQ(bits(a), bits(b)) tells 0 from -0 and finds a NaN equal to itself.
inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  result.reserve(values.size());
  for (float x : values) result.push_back(std::bit_cast<std::uint32_t>(x));
  return result;
}

/// Distance of `value` from the exact result, in units of the float spacing there.
inline double ulps(float value, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(static_cast<double>(value) - exact) / std::ldexp(1.0, exponent - 23);
}

}  // namespace mneme::testing
