#include "mneme/models/mxfp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

std::span<const std::byte> bytes_of(const std::vector<std::uint8_t>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Mxfp4, EvenNumbersAreLowOddOnesHighAndScalesArePowersOfTwo) {
  std::vector<std::uint8_t> q(2 * 2 * 16), e = {127, 128, 120, 0};
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<std::uint8_t>(i * 37 + 11);
  const StoredTensor blocks{
      .name = "b", .storage = Storage::kUInt8, .shape = {2, 2, 16}, .data = bytes_of(q), .row_order = {}};
  const StoredTensor scales{
      .name = "s", .storage = Storage::kUInt8, .shape = {2, 2}, .data = bytes_of(e), .row_order = {}};
  const WeightRows rows = mxfp4_rows(blocks, scales);
  ASSERT_EQ(rows.n, 2);
  ASSERT_EQ(rows.columns, 64);
  std::vector<float> second(64);
  rows.read(1, 1, second.data());
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint8_t pair = q[32 + i / 2];
    EXPECT_EQ(second[i], std::ldexp(kNumbers[i % 2 ? pair >> 4 : pair & 15], e[2 + i / 32] - 127)) << i;
  }
}

TEST(Mxfp4, NumbersAreRefusedWithTheirName) {
  const std::vector<std::uint8_t> data(64);
  const StoredTensor blocks{
      .name = "b", .storage = Storage::kUInt8, .shape = {1, 1, 16}, .data = bytes_of(data), .row_order = {}};
  const StoredTensor scales{
      .name = "scales", .storage = Storage::kFloat32, .shape = {1, 1}, .data = bytes_of(data), .row_order = {}};
  EXPECT_THAT(testing::thrown(ErrorKind::kUnsupported, [&] { mxfp4_rows(blocks, scales); }),
              ::testing::HasSubstr("scales is float32"));
}

}  // namespace
}  // namespace mneme
