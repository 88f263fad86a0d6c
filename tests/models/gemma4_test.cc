// Which layers of a Gemma 4 have keys and values; what it computes is held against transformers in golden_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "mneme/models/ragged.h"
#include "mneme/models/registry.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

const std::string kFolder = testing::test_data("models/gemma4_shared");

CacheShape shape_of(const Json& changes = Json::object()) {
  Json json = read_json_file(kFolder + "/config.json");
  json.update(changes);
  return architecture_of("gemma4_text").cache_shape(ModelConfig::from_json(json, "g4"), DType::kFloat32, at::kCPU);
}
std::string refusal(const Json& changes) {
  return thrown(ErrorKind::kCorruptData, [&] { shape_of(changes); });
}

TEST(Gemma4, OnlyTheFirstLayersAreCachedAndTheLastOfEachTypeIsRead) {
  const CacheShape shape = shape_of();
  ASSERT_EQ(shape.layers.size(), 3u);
  EXPECT_EQ(shape.layers[0].n_readers, 0);
  EXPECT_EQ(shape.layers[1].n_readers, 2);
  EXPECT_EQ(shape.layers[1].retention, Retention::last(8));
  EXPECT_EQ(shape.layers[2].n_readers, 2);
  EXPECT_EQ(shape.layers[2].key_dim, 32);
  EXPECT_EQ(shape_of({{"num_kv_shared_layers", 0}}).layers.size(), 7u);
}

TEST(Gemma4, OlderFilesNameTheSizesOfFullLayers) {
  const Json older = {{"per_layer_config", nullptr},
                      {"global_head_dim", 64},
                      {"attention_k_eq_v", true},
                      {"num_global_key_value_heads", 1}};
  const CacheShape shape = shape_of(older);
  EXPECT_EQ(shape.layers[2].key_dim, 64);
  EXPECT_EQ(shape.layers[2].n_heads, 1);
  EXPECT_EQ(shape.layers[1].key_dim, 16);
  EXPECT_EQ(shape.layers[1].n_heads, 2);
}

TEST(Gemma4, LayersThatCannotBeAreNamed) {
  EXPECT_THAT(refusal({{"num_kv_shared_layers", 7}}), AllOf(HasSubstr("is 7"), HasSubstr("0 to 6")));
  EXPECT_THAT(refusal({{"num_kv_shared_layers", -1}}), HasSubstr("is -1"));
  EXPECT_THAT(refusal({{"num_kv_shared_layers", 5}}),
              AllOf(HasSubstr("layer 2 reads"), HasSubstr("none of the 2 that have any")));
  EXPECT_THAT(refusal({{"per_layer_config", {{"2", 5}}}}), HasSubstr("layer 2 must be an object"));
  EXPECT_THAT(refusal({{"per_layer_config", {{"2", {{"num_key_value_heads", 3}}}}}}), HasSubstr("4 by 3"));
}

TEST(Gemma4, OneSetOfRopeParametersTurnsHeadsOfEitherSize) {
  const Weights weights = Weights::open(kFolder);
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const auto logits = [&](const Json& parameters) {
    Json json = read_json_file(kFolder + "/config.json");
    json["rope_parameters"] = parameters;
    const auto model =
        architecture_of("gemma4_text").build(ModelConfig::from_json(json, "g4"), weights, DType::kFloat32, at::kCPU);
    DynamicCache cache(model->cache_shape());
    return forward(*model, {.input_ids = at::arange(3, 23).unsqueeze(0)}, cache);
  };
  EXPECT_TRUE(at::equal(logits(plain), logits({{"full_attention", plain}, {"sliding_attention", plain}})));
}

TEST(Gemma4, AnEncoderIsRefused) {
  Json json = read_json_file(kFolder + "/config.json");
  json["use_bidirectional_attention"] = "all";
  const ModelConfig config = ModelConfig::from_json(json, "g4");
  const Weights weights = Weights::open(kFolder);
  EXPECT_THAT(thrown(ErrorKind::kUnsupported,
                     [&] { architecture_of("gemma4_text").build(config, weights, DType::kFloat32, at::kCPU); }),
              HasSubstr("use_bidirectional_attention"));
}

}  // namespace
}  // namespace mneme
