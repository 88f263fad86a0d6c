#include "mneme/cache/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cache_kinds.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

CacheShape shape(std::int64_t head_dim = 64) {
  const LayerShape full{.n_heads = 2, .key_dim = head_dim, .value_dim = head_dim};
  LayerShape window = full;
  window.retention = Retention::last(8);
  return {.layers = {full, window}, .dtype = DType::kBFloat16};
}

CachePlan plan(const CacheConfig& config, std::optional<std::int64_t> max_cache_len = {}) {
  return plan_cache(shape(), {.max_cache_len = max_cache_len, .quantized = true, .config = config});
}

TEST(RawLayout, RefusesSizesThatCannotBe) {
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { raw_layout(DType::kFloat32, 0, 64, 64); }),
              HasSubstr("0 heads of 64 and 64"));
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 25, INT64_MAX}) {
    thrown(ErrorKind::kInvalidArgument, [&] { raw_layout(DType::kFloat32, bad, 64, 64); });
    thrown(ErrorKind::kInvalidArgument, [&] { raw_layout(DType::kFloat32, 1, bad, 64); });
    thrown(ErrorKind::kInvalidArgument, [&] { raw_layout(DType::kFloat32, 1, 64, bad); });
  }
}

TEST(CachePlan, PlainLayersKeepTheirDType) {
  const CachePlan p = plan_cache(shape(), {});
  EXPECT_EQ(p.implementation, "dynamic");
  for (const LayerPlan& layer : p.layers) {
    EXPECT_EQ(layer.codec_name(), "bfloat16");
    EXPECT_EQ(layer.bytes_per_token(), 2 * (64 + 64) * 2);
    EXPECT_FALSE(layer.offloaded);
  }
  EXPECT_EQ(plan_cache(shape(), {.dtype = DType::kFloat32}).layers[0].codec_name(), "float32");
  EXPECT_EQ(plan_cache(shape(), {.max_cache_len = 10}).implementation, "static");
}

// The defaults of the interface's table.
TEST(CachePlan, EachBackendHasItsDefaults) {
  EXPECT_EQ(plan({}).layers[0].codec_name(), "quanto4");
  EXPECT_EQ(plan({}).layers[0].residual_blocks, 2);
  EXPECT_EQ(plan({.backend = "hqq"}).layers[0].codec_name(), "hqq4");
  const LayerPlan kivi = plan({.backend = "kivi"}).layers[0];
  EXPECT_EQ(kivi.codec_name(), "kivi4+4");
  EXPECT_EQ(kivi.residual_blocks, 2);
  EXPECT_TRUE(kivi.rotate_values);
  EXPECT_EQ(kivi.codec->codes().sink_length, 4);
  EXPECT_EQ(plan({.backend = "int8"}).layers[0].residual_blocks, 0);
  EXPECT_EQ(plan({.backend = "fp8"}).layers[0].residual_blocks, 0);
  EXPECT_EQ(plan({.backend = "fp8", .residual_length = 0}).layers[0].codec_name(), "fp8");
}

// What the judges of a codec count: bytes a token against bfloat16, scales included.
TEST(CachePlan, BytesPerTokenAreWithinTheirBounds) {
  const double raw = plan_cache(shape(), {}).layers[0].bytes_per_token();
  const auto ratio = [&](const CacheConfig& config) { return plan(config).layers[0].bytes_per_token() / raw; };
  EXPECT_LE(ratio({.backend = "int8"}), 0.53);
  EXPECT_LE(ratio({.backend = "fp8"}), 0.53);
  EXPECT_LE(ratio({.backend = "quanto"}), 0.29);
  EXPECT_LE(ratio({.backend = "hqq", .axis_key = 1, .axis_value = 1}), 0.29);
  EXPECT_LE(ratio({.backend = "kivi"}), 0.32);
  EXPECT_LE(ratio({.backend = "kivi", .nbits_key = 4, .nbits_value = 2}), 0.26);
  EXPECT_LE(ratio({.backend = "kivi", .nbits_key = 3, .nbits_value = 2}), 0.23);
  EXPECT_LE(ratio({.backend = "kivi", .nbits = 2}), 0.19);
}

TEST(CachePlan, ResidualsAreRoundedUpToBlocks) {
  for (const auto& [tokens, blocks] : {std::pair{0, 0}, {1, 1}, {64, 1}, {65, 2}, {128, 2}}) {
    EXPECT_EQ(plan({.residual_length = tokens}).layers[0].residual_blocks, blocks);
  }
}

TEST(CachePlan, LayersMayHaveBitsOfTheirOwn) {
  const CachePlan p = plan(
      {.backend = "kivi", .nbits_key = 4, .nbits_value = 2, .layers = {{.first = 1, .last = 1, .bits = {.nbits = 8}}}});
  EXPECT_EQ(p.layers[0].codec_name(), "kivi4+2");
  EXPECT_EQ(p.layers[1].codec_name(), "kivi8+8");
  EXPECT_THAT(
      thrown(ErrorKind::kInvalidArgument, [] { plan({.layers = {{.first = 1, .last = 2, .bits = {.nbits = 2}}}}); }),
      AllOf(HasSubstr("layer 2"), HasSubstr("model of 2")));
}

TEST(CachePlan, SaysWhatABackendDoesNotKnow) {
  const auto refused = [](const CacheConfig& config) {
    return thrown(ErrorKind::kInvalidArgument, [&] { plan(config); });
  };
  EXPECT_THAT(refused({.backend = "awq"}), AllOf(HasSubstr("awq"), HasSubstr("quanto, hqq, kivi, int8, fp8")));
  EXPECT_THAT(refused({.nbits = 3}), AllOf(HasSubstr("nbits = 3"), HasSubstr("4, 2")));
  EXPECT_THAT(refused({.axis_key = 1}), AllOf(HasSubstr("axis_key = 1"), HasSubstr("0, -1")));
  EXPECT_THAT(refused({.backend = "hqq", .nbits = 5}), HasSubstr("nbits = 5"));
  EXPECT_THAT(refused({.backend = "fp8", .nbits = 8}), AllOf(HasSubstr("nbits"), HasSubstr("fp8")));
  EXPECT_THAT(refused({.backend = "fp8", .residual_length = 1}), HasSubstr("residual_length"));
  EXPECT_THAT(refused({.backend = "int8", .q_group_size = 64}), HasSubstr("q_group_size"));
  EXPECT_THAT(refused({.backend = "quanto", .nbits_key = 4}), HasSubstr("nbits_key"));
  EXPECT_THAT(refused({.backend = "hqq", .sink_length = 4}), HasSubstr("sink_length"));
  EXPECT_THAT(refused({.backend = "quanto", .rotate_values = true}), HasSubstr("rotate_values"));
  EXPECT_THAT(refused({.backend = "kivi", .sink_length = 65}), AllOf(HasSubstr("65"), HasSubstr("0 to 64")));
  EXPECT_THAT(refused({.residual_length = -1}), HasSubstr("residual_length = -1"));
  EXPECT_THAT(refused({.q_group_size = 0}), HasSubstr("q_group_size = 0"));
}

TEST(CachePlan, ACodecNeedsAQuantizedCache) {
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { plan_cache(shape(), {.config = {.nbits = 4}}); }),
              HasSubstr("cache_implementation = quantized"));
}

TEST(CachePlan, GroupsMustFit) {
  const auto refused = [](std::int64_t dim, const CacheConfig& config) {
    return thrown(ErrorKind::kInvalidArgument, [&] { plan_cache(shape(dim), {.quantized = true, .config = config}); });
  };
  EXPECT_THAT(refused(80, {.q_group_size = 48}), AllOf(HasSubstr("48"), HasSubstr("5120")));
  EXPECT_THAT(refused(64, {.axis_key = -1, .q_group_size = 48}), AllOf(HasSubstr("48"), HasSubstr("64")));
  for (const std::int64_t dim : {16, 24, 80, 96, 128}) plan_cache(shape(dim), {.quantized = true});
}

TEST(CachePlan, OffloadsWhatItIsAskedTo) {
  const CachePlan all = plan_cache(shape(), {.config = {.offloading = true}});
  EXPECT_EQ(all.implementation, "offloaded");
  EXPECT_EQ(all.offload_device, "disk");
  EXPECT_TRUE(all.layers[0].offloaded && all.layers[1].offloaded);
  const CachePlan fixed = plan_cache(shape(), {.max_cache_len = 100, .config = {.offloading = true}});
  EXPECT_EQ(fixed.implementation, "offloaded_static");
  EXPECT_TRUE(fixed.layers[0].offloaded && !fixed.layers[1].offloaded);
  EXPECT_EQ(plan({.offloading = true}, 100).implementation, "quantized_offloaded_static");
}

TEST(CachePlan, OtherDevicesOffloadToTheHostUnlessToldOtherwise) {
  CacheShape cuda = shape();
  cuda.device = at::Device(at::kCUDA, 0);
  EXPECT_EQ(plan_cache(cuda, {.max_cache_len = 10}).implementation, "static");
  EXPECT_EQ(plan_cache(cuda, {.quantized = true}).implementation, "quantized");
  EXPECT_EQ(plan_cache(cuda, {.config = {.offloading = true}}).offload_device, "cpu");
  EXPECT_EQ(plan_cache(cuda, {.config = {.offloading = true, .offload_device = "disk"}}).offload_device, "disk");
}

// Layers x tokens x heads x sizes need more than 32 bits.
TEST(CachePlan, BytesOfALargeModelAreExact) {
  const CacheShape large{.layers = std::vector(80, LayerShape{.n_heads = 8, .key_dim = 128, .value_dim = 128}),
                         .dtype = DType::kBFloat16};
  double per_token = 0;
  for (const LayerPlan& layer : plan_cache(large, {}).layers) per_token += layer.bytes_per_token();
  EXPECT_EQ(per_token * 32768, 2.0 * 80 * 32768 * 8 * 128 * 2);
}

TEST(CachePlan, RefusesOffloadingThatMovesNothing) {
  const auto refused = [](const CacheConfig& config) {
    return thrown(ErrorKind::kInvalidArgument, [&] { plan_cache(shape(), {.config = config}); });
  };
  EXPECT_THAT(refused({.offloading = true, .offload_device = "cpu"}), HasSubstr("disk"));
  EXPECT_THAT(refused({.offloading = true, .offload_device = "tape"}),
              AllOf(HasSubstr("tape"), HasSubstr("disk, cpu")));
  EXPECT_THAT(refused({.offload_folder = "/tmp"}), HasSubstr("\"offloading\": true"));
  EXPECT_THAT(refused({.offloading = true, .offload_folder = ""}), HasSubstr("offload_folder is empty"));
}

}  // namespace
}  // namespace mneme
