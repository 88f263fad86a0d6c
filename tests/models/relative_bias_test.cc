#include "mneme/models/relative_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/base/json.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

// Values that are their bucket's number show which bucket a distance falls into (tests/golden/make_t5.py).
TEST(RelativeBias, BucketsAreThoseOfTransformers) {
  for (const Json& item : read_json_file(testing::test_data("t5/buckets.json"))) {
    const auto buckets = item["buckets"].get<std::int64_t>(), reach = item["max_distance"].get<std::int64_t>();
    const bool bidirectional = item["bidirectional"].get<bool>();
    const auto numbers = at::arange(buckets, at::kFloat);
    const at::Tensor table = relative_bias_table(at::stack({numbers, numbers + 1000}, 1),
                                                 {.max_distance = reach, .bidirectional = bidirectional});
    ASSERT_EQ(table.sizes(), at::IntArrayRef({2, 2 * (reach + 64) - 1}));
    for (std::int64_t d = -200; d <= 200; ++d) {
      const std::int64_t place = std::clamp(d, -reach, reach) + reach + 63;
      ASSERT_EQ(table[0][place].item<float>(), item["bucket"][static_cast<std::size_t>(d + 200)].get<float>())
          << buckets << " buckets up to " << reach << " distance " << d;
      ASSERT_EQ(table[1][place].item<float>(), table[0][place].item<float>() + 1000);
    }
    for (std::int64_t i = 0; i < 63; ++i) {  // either end is repeated
      ASSERT_EQ(table[0][i].item<float>(), table[0][63].item<float>());
      ASSERT_EQ(table[0][2 * reach + 64 + i].item<float>(), table[0][2 * reach + 63].item<float>());
    }
  }
}

TEST(RelativeBias, RefusesBucketsThatMakeNoSense) {
  const auto refusal = [](std::int64_t buckets, const RelativeBiasOptions& options) {
    return thrown(ErrorKind::kCorruptData, [&] { relative_bias_table(at::zeros({buckets, 2}), options); });
  };
  EXPECT_THAT(refusal(3, {.bidirectional = true}), AllOf(HasSubstr("is 3"), HasSubstr("4")));
  EXPECT_THAT(refusal(1, {.bidirectional = false}), AllOf(HasSubstr("is 1"), HasSubstr("2")));
  for (const std::int64_t distance :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{8}, std::int64_t{65537}, std::int64_t{INT64_MAX}}) {
    EXPECT_THAT(refusal(32, {.max_distance = distance}),
                AllOf(HasSubstr(std::to_string(distance)), HasSubstr("9 to 65536")));
  }
}

}  // namespace
}  // namespace mneme
