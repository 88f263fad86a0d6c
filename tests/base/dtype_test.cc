#include "mneme/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace mneme {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct BFloat16 {
  static constexpr int kFractionBits = 7, kMinExponent = -126;
  static constexpr double kLimit = 0x1.ffp127;  // halfway between the largest number and the next power of two
  static float widen(std::uint16_t bits) { return from_bfloat16(bits); }
  static std::uint16_t round(float value) { return to_bfloat16(value); }
};

struct Float16 {
  static constexpr int kFractionBits = 10, kMinExponent = -14;
  static constexpr double kLimit = 65520.0;
  static float widen(std::uint16_t bits) { return from_float16(bits); }
  static std::uint16_t round(float value) { return to_float16(value); }
};

/// The value of 16 bits, from the definition of the format.
template <class Format>
double define(std::uint16_t bits) {
  const int fraction = bits & ((1 << Format::kFractionBits) - 1);
  const int exponent = (bits & 0x7fff) >> Format::kFractionBits;
  const int all_ones = 0x7fff >> Format::kFractionBits;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == all_ones) return fraction ? kNan : sign * kInfinity;
  const double significand = std::ldexp(fraction, -Format::kFractionBits) + (exponent ? 1 : 0);
  return sign * std::ldexp(significand, std::max(exponent, 1) - 1 + Format::kMinExponent);
}

/// Round to nearest, ties to even, in double and from the definition; nearbyint rounds ties to even.
template <class Format>
double nearest(float value) {
  if (!(std::fabs(value) < Format::kLimit)) return std::copysign(kInfinity, value);
  const int exponent = value == 0 ? Format::kMinExponent : std::max(std::ilogb(value), Format::kMinExponent);
  const double unit = std::ldexp(1.0, exponent - Format::kFractionBits);
  return std::nearbyint(value / unit) * unit;
}

template <class Format>
class SixteenBits : public testing::Test {};
using Formats = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(SixteenBits, Formats);

TYPED_TEST(SixteenBits, EveryPatternHasItsDefinedValue) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double expected = define<TypeParam>(pattern);
    const double actual = TypeParam::widen(pattern);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(actual, expected) << bits;
      ASSERT_EQ(std::signbit(actual), pattern >> 15 == 1) << bits;
    }
  }
}

TYPED_TEST(SixteenBits, EveryPatternSurvivesTheRoundTrip) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = TypeParam::widen(pattern);
    const std::uint16_t back = TypeParam::round(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(TypeParam::widen(back))) << bits;
    } else {
      ASSERT_EQ(back, pattern) << bits;
    }
  }
}

TYPED_TEST(SixteenBits, RoundsToNearestTiesToEven) {
  // Around every representable number: itself, the point halfway to the next one, and the floats beside both.
  for (int bits = 0; bits < 0x7fff; ++bits) {
    const float low = TypeParam::widen(static_cast<std::uint16_t>(bits));
    const float high = TypeParam::widen(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = low / 2 + high / 2;
    for (const float center : {low, middle}) {
      for (const float value : {std::nextafterf(center, -kInfinity), center, std::nextafterf(center, kInfinity)}) {
        for (const float signed_value : {value, -value}) {
          ASSERT_EQ(TypeParam::widen(TypeParam::round(signed_value)), nearest<TypeParam>(signed_value)) << signed_value;
        }
      }
    }
  }
}

TYPED_TEST(SixteenBits, RoundsRandomFloats) {
  std::mt19937 random(20240607);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(TypeParam::widen(TypeParam::round(value)), nearest<TypeParam>(value)) << value;
  }
}

TYPED_TEST(SixteenBits, OverflowGivesInfinity) {
  for (const float value : {std::numeric_limits<float>::max(), kInfinity, static_cast<float>(TypeParam::kLimit)}) {
    EXPECT_EQ(TypeParam::widen(TypeParam::round(value)), kInfinity);
    EXPECT_EQ(TypeParam::widen(TypeParam::round(-value)), -kInfinity);
  }
  const float below = std::nextafterf(static_cast<float>(TypeParam::kLimit), 0.0f);
  EXPECT_TRUE(std::isfinite(TypeParam::widen(TypeParam::round(below))));
}

TYPED_TEST(SixteenBits, ANanStaysANan) {
  // The last pattern has its payload in the low bits only: dropping them would leave an infinity.
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0x7f800001u}) {
    EXPECT_TRUE(std::isnan(TypeParam::widen(TypeParam::round(std::bit_cast<float>(bits))))) << bits;
  }
}

TYPED_TEST(SixteenBits, ZeroKeepsItsSign) {
  EXPECT_EQ(TypeParam::round(0.0f), 0x0000);
  EXPECT_EQ(TypeParam::round(-0.0f), 0x8000);
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(name_of(DType::kFloat32), "float32");
  EXPECT_EQ(name_of(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::kFloat16), "float16");
  EXPECT_EQ(size_of(DType::kFloat32), 4u);
  EXPECT_EQ(size_of(DType::kBFloat16), 2u);
  EXPECT_EQ(size_of(DType::kFloat16), 2u);
}

TEST(DType, ConvertsAtCompileTime) {
  static_assert(from_bfloat16(0x3f80) == 1.0f && to_bfloat16(1.0f) == 0x3f80);
  static_assert(from_float16(0x3c00) == 1.0f && to_float16(1.0f) == 0x3c00);
}

}  // namespace
}  // namespace mneme
