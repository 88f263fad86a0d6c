#include "mneme/cache/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

TEST(CacheConfig, ReadsEveryKey) {
  const CacheConfig c = CacheConfig::from_json(Json::parse(R"({
    "backend": "kivi", "nbits": 4, "nbits_key": 3, "nbits_value": 2, "axis_key": -1, "axis_value": 1,
    "q_group_size": 32, "residual_length": 64, "sink_length": 4, "rotate_values": false,
    "layers": {"0": {"nbits": 8}, "3-5": {"nbits_key": 4, "nbits_value": 2}},
    "offloading": true, "offload_device": "disk", "offload_folder": "/x", "offload_only_non_sliding": true,
    "max_cache_bytes": 1000})"));
  EXPECT_EQ(c.backend, "kivi");
  EXPECT_EQ(c.nbits, 4);
  EXPECT_EQ(c.nbits_key, 3);
  EXPECT_EQ(c.nbits_value, 2);
  EXPECT_EQ(c.axis_key, -1);
  EXPECT_EQ(c.axis_value, 1);
  EXPECT_EQ(c.q_group_size, 32);
  EXPECT_EQ(c.residual_length, 64);
  EXPECT_EQ(c.sink_length, 4);
  EXPECT_EQ(c.rotate_values, false);
  ASSERT_EQ(c.layers.size(), 2u);
  EXPECT_EQ(c.layers[0].last, 0);
  EXPECT_EQ(c.layers[0].bits.nbits, 8);
  EXPECT_EQ(c.layers[1].first, 3);
  EXPECT_EQ(c.layers[1].last, 5);
  EXPECT_EQ(c.layers[1].bits.nbits_value, 2);
  EXPECT_EQ(c.offloading, true);
  EXPECT_EQ(c.offload_device, "disk");
  EXPECT_EQ(c.offload_folder, "/x");
  EXPECT_EQ(c.offload_only_non_sliding, true);
  EXPECT_EQ(c.max_cache_bytes, 1000);
}

TEST(CacheConfig, UnsetAndNullAreDefaults) {
  EXPECT_FALSE(CacheConfig::from_json(Json::object()).backend);
  EXPECT_FALSE(CacheConfig::from_json(Json::parse(R"({"nbits": null})")).nbits);
}

TEST(CacheConfig, NamesWhatIsWrong) {
  const auto refused = [](const char* json) {
    return thrown(ErrorKind::kInvalidArgument, [&] { CacheConfig::from_json(Json::parse(json)); });
  };
  EXPECT_THAT(refused(R"({"bits": 4})"), AllOf(HasSubstr("\"bits\""), HasSubstr("nbits"), HasSubstr("offloading")));
  EXPECT_THAT(refused(R"({"nbits": "4"})"), AllOf(HasSubstr("nbits"), HasSubstr("\"4\"")));
  EXPECT_THAT(refused(R"({"nbits": 4.5})"), HasSubstr("whole number"));
  EXPECT_THAT(refused(R"({"nbits": 18446744073709551615})"), HasSubstr("whole number"));
  EXPECT_THAT(refused(R"({"rotate_values": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(refused(R"({"backend": 1})"), HasSubstr("string"));
  EXPECT_THAT(refused("[]"), HasSubstr("object"));
  EXPECT_THAT(refused(R"({"layers": 3})"), HasSubstr("object"));
  for (const char* name : {"x", "", "3-", "-3", "5-4", "1-2-3", "99999999999999999999"}) {
    const std::string json = std::string(R"({"layers": {")") + name + R"(": {"nbits": 8}}})";
    EXPECT_THAT(refused(json.c_str()), HasSubstr("layers names")) << name;
  }
  EXPECT_THAT(refused(R"({"layers": {"0-2": {"nbits": 2}, "2-5": {"nbits": 4}}})"),
              AllOf(HasSubstr("0-2"), HasSubstr("2-5"), HasSubstr("in common")));
  EXPECT_THAT(refused(R"({"layers": {"1": {"axis_key": 0}}})"), AllOf(HasSubstr("axis_key"), HasSubstr("nbits_value")));
}

}  // namespace
}  // namespace mneme
