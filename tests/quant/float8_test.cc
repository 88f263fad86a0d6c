#include "mneme/quant/float8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/coded_blocks.h"
#include "tests/support/floats.h"

namespace mneme::quant {
namespace {

using kernels::float8_value;

constexpr int kLargest = 0x7e;  // 448

TEST(Float8, EveryNumberStaysAsItIs) {
  for (int code = 0; code <= kLargest; ++code) {
    EXPECT_EQ(to_float8(float8_value(code)), code);
    EXPECT_EQ(to_float8(-float8_value(code)), code | 0x80);
  }
}

TEST(Float8, RoundsToTheNearestTiesToEven) {
  for (int code = 0; code < kLargest; ++code) {
    const float low = float8_value(code), high = float8_value(code + 1), middle = (low + high) / 2;
    EXPECT_EQ(to_float8(middle), code % 2 ? code + 1 : code) << code;
    EXPECT_EQ(to_float8(std::nextafter(middle, 0.0f)), code) << code;
    EXPECT_EQ(to_float8(std::nextafter(middle, 1e9f)), code + 1) << code;
  }
}

TEST(Float8, SaturatesAndFlushes) {
  for (const float x : {449.0f, 463.9f, 464.0f, 480.0f, 1e30f, testing::kInfinity}) {
    EXPECT_EQ(to_float8(x), kLargest) << x;
    EXPECT_EQ(to_float8(-x), kLargest | 0x80) << x;
  }
  for (const float x : {0.0f, 1e-45f, 1e-30f, 0x1p-10f}) EXPECT_EQ(to_float8(x), 0) << x;
}

}  // namespace
}  // namespace mneme::quant
