// The answers of transformers on small models with random weights, and that ours are the same bits however computed.
#include <gtest/gtest.h>

#include "mneme/base/thread_pool.h"
#include "tests/generate/golden.h"

namespace mneme {
namespace {

using testing::Answer;
using testing::answer;
using testing::golden_model;
using testing::left_padded;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;

class GoldenTest : public ::testing::TestWithParam<std::string> {};

/// The ways to hold the past that must all give the same.
const std::pair<const char*, GenerateOptions> kCaches[] = {
    {"dynamic", {}},
    {"static", {.cache_implementation = "static"}},
    {"none", {.use_cache = false}},
};

TEST_P(GoldenTest, GreedyTextsAndLogitsAreTransformers) {
  const auto model = golden_model(GetParam());
  const Json golden = read_json_file(testing::golden_path(GetParam()) + "/golden.json");
  int n_greedy = 0;
  for (const Json& c : golden["cases"]) {
    if (c["mode"] != "greedy") continue;
    ++n_greedy;
    const EncodedInputs inputs{.input_ids = tensor_of(c["input_ids"].get<Rows>()),
                               .attention_mask = tensor_of(c["attention_mask"].get<Rows>())};
    for (const auto& [name, cache] : kCaches) {
      SCOPED_TRACE(std::string(name) + ", case " + std::to_string(n_greedy));
      GenerateOptions options = cache;
      options.max_new_tokens = c["max_new_tokens"].get<std::int64_t>();
      options.pad_token_id = 0;
      options.output_logits = true;
      const GenerateOutput output = model->generate(inputs, options);
      EXPECT_EQ(testing::rows_of(output.sequences), c["sequences"].get<Rows>());
      EXPECT_EQ(output.cache_implementation, name);
      EXPECT_NEAR(output.min_gap, c["min_gap"].get<float>(), 1e-3);
      if (!c.contains("last_logits")) continue;
      const auto expected = at::tensor(c["last_logits"][0].get<std::vector<float>>());
      const float largest = expected.abs().max().item<float>();
      EXPECT_LT((output.prompt_logits[0] - expected).abs().max().item<float>(), 1e-4 * largest);
    }
  }
  EXPECT_EQ(n_greedy, 5);
}

/// Everything that may not change a bit, in one dtype.
void expect_same_bits(const std::string& name, at::ScalarType dtype) {
  const auto model = golden_model(name, dtype);
  const Rows prompts = {some_ids(70, 1), some_ids(1, 2), some_ids(9, 3)};
  const EncodedInputs batch = left_padded(prompts);
  const GenerateOptions plain{.max_new_tokens = 12};
  const Answer expected = answer(*model, batch, plain);
  ASSERT_TRUE(at::isfinite(expected.logits).all().item<bool>());

  for (const auto& [cache_name, cache] : kCaches) {
    GenerateOptions options = cache;
    options.max_new_tokens = 12;
    EXPECT_TRUE(answer(*model, batch, options) == expected) << cache_name;
  }
  for (const std::int64_t chunk : {1, 2, 5, 8, 16, 33, 64}) {
    GenerateOptions options = plain;
    options.prefill_chunk_size = chunk;
    EXPECT_TRUE(answer(*model, batch, options) == expected) << "chunk " << chunk;
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Answer alone = answer(*model, left_padded({prompts[i]}), plain);
    EXPECT_EQ(alone.new_tokens[0], expected.new_tokens[i]) << "row " << i;
    EXPECT_TRUE(at::equal(alone.logits[0], expected.logits[static_cast<std::int64_t>(i)])) << "row " << i;
  }
  ThreadPool& pool = ThreadPool::global();
  const int n_threads = pool.size();
  for (const int n : {1, 2, 3}) {
    pool.resize(n);
    EXPECT_TRUE(answer(*model, batch, plain) == expected) << n << " threads";
  }
  pool.resize(n_threads);
}

TEST_P(GoldenTest, SameBitsHoweverComputedInFloat32) { expect_same_bits(GetParam(), at::kFloat); }
TEST_P(GoldenTest, SameBitsHoweverComputedInBFloat16) { expect_same_bits(GetParam(), at::kBFloat16); }
TEST_P(GoldenTest, SameBitsHoweverComputedInFloat16) { expect_same_bits(GetParam(), at::kHalf); }

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(testing::kGoldenModels),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(RecurrentModels, GoldenTest, ::testing::ValuesIn(testing::kRecurrentGoldenModels),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mneme
