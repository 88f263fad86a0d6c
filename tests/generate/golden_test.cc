// The answers of transformers on small models with random weights, and that ours are the same bits however computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mneme/base/log.h"
#include "mneme/base/thread_pool.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

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
    {"offloaded", {.cache_implementation = "offloaded"}},
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

/// What is seen encoded depends on positions alone, so a prompt in any chunks gives what it gives at once, and a
/// recomputation in one forward pass gives every step.
TEST_P(GoldenTest, QuantizedCachesEqualTheirRecomputation) {
  const auto model = golden_model(GetParam());
  const EncodedInputs batch = left_padded({some_ids(200, 4), some_ids(70, 5)});
  GenerateOptions quantized{.max_new_tokens = 8};
  quantized.cache_implementation = "quantized";
  quantized.cache_config = CacheConfig{.backend = "int8", .residual_length = 0};
  const Answer expected = answer(*model, batch, quantized);
  ASSERT_TRUE(at::isfinite(expected.logits).all().item<bool>());
  for (const std::int64_t chunk : {7, 64}) {
    GenerateOptions options = quantized;
    options.prefill_chunk_size = chunk;
    EXPECT_TRUE(answer(*model, batch, options) == expected) << "chunk " << chunk;
  }
  Rows texts = {some_ids(200, 4), some_ids(70, 5)};
  for (std::size_t i = 0; i < texts.size(); ++i)
    texts[i].insert(texts[i].end(), expected.new_tokens[i].begin(), expected.new_tokens[i].end() - 1);
  quantized.max_new_tokens = 1;
  const Answer last = answer(*model, left_padded(texts), quantized);
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(last.new_tokens[i].back(), expected.new_tokens[i].back()) << "recomputed";
}

TEST_P(GoldenTest, SameBitsHoweverComputedInFloat32) { expect_same_bits(GetParam(), at::kFloat); }
TEST_P(GoldenTest, SameBitsHoweverComputedInBFloat16) { expect_same_bits(GetParam(), at::kBFloat16); }
TEST_P(GoldenTest, SameBitsHoweverComputedInFloat16) { expect_same_bits(GetParam(), at::kHalf); }

// GGUF files in the layout of llama.cpp's converter (tests/golden/make_gguf.py): the answers of the model that was
// converted, and no tensor is left over.
class GgufGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufGoldenTest, GreedyTextsAndLogitsAreTransformers) {
  const std::string path = testing::test_data("gguf/") + GetParam();
  std::vector<std::string> warnings;
  std::shared_ptr<const CausalLM> model;
  {
    struct Restore {
      ~Restore() { set_warning_handler({}); }
    } restore;
    set_warning_handler([&](const std::string& message) { warnings.push_back(message); });
    model = AutoModelForCausalLM::from_pretrained(path + ".gguf", {.dtype = at::kFloat});
  }
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  const Json golden = read_json_file(path + ".json");
  EXPECT_EQ(golden.size(), 2u);
  for (const Json& c : golden) {
    const EncodedInputs inputs{.input_ids = tensor_of(c["input_ids"].get<Rows>())};
    for (const auto& [name, cache] : kCaches) {
      SCOPED_TRACE(name);
      GenerateOptions options = cache;
      options.max_new_tokens = 24;
      options.eos_token_id = std::vector<std::int64_t>{};
      options.output_logits = true;
      const GenerateOutput output = model->generate(inputs, options);
      EXPECT_EQ(testing::rows_of(output.sequences), c["sequences"].get<Rows>());
      const auto expected = at::tensor(c["last_logits"].get<std::vector<float>>());
      const float largest = expected.abs().max().item<float>();
      EXPECT_LT((output.prompt_logits[0] - expected).abs().max().item<float>(), 1e-4 * largest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufGoldenTest,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "phi3",
                                           "gpt-oss", "mamba", "lfm2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Angles grow with the text, so keys that are in the cache keep those of their time: as in transformers, that is
// another text than one computed at once. Chunks of a prompt change nothing.
TEST(DynamicRope, GreedyTextsAreTransformersAndChunksChangeNothing) {
  const auto model = golden_model("llama_dynamic");
  const Json golden = read_json_file(testing::golden_path("llama_dynamic") + "/golden.json");
  for (const Json& c : golden["cases"]) {
    if (c["mode"] != "greedy") continue;
    const EncodedInputs inputs{.input_ids = tensor_of(c["input_ids"].get<Rows>()),
                               .attention_mask = tensor_of(c["attention_mask"].get<Rows>())};
    for (const std::int64_t chunk : {7, 1000}) {
      GenerateOptions options{.max_new_tokens = c["max_new_tokens"].get<std::int64_t>()};
      options.pad_token_id = 0;
      options.prefill_chunk_size = chunk;
      EXPECT_EQ(testing::rows_of(model->generate(inputs, options).sequences), c["sequences"].get<Rows>());
    }
  }
}

TEST(LearnedPositions, ATextBehindTheLastOneIsRefusedBeforeAnythingIsComputed) {
  const auto model = golden_model("gpt2");
  const EncodedInputs prompt{.input_ids = tensor_of({some_ids(500)})};
  EXPECT_EQ(model->generate(prompt, {.max_new_tokens = 12}).new_tokens[0].size(), 12u);
  const std::string message =
      testing::thrown(ErrorKind::kInvalidArgument, [&] { model->generate(prompt, {.max_new_tokens = 13}); });
  EXPECT_THAT(message, ::testing::HasSubstr("a prompt of 500 + 13 new tokens go behind the 512 positions"));
  EXPECT_THAT(testing::thrown(
                  ErrorKind::kInvalidArgument,
                  [&] {
                    model->forward({.input_ids = tensor_of({{5}}), .position_ids = at::full({1, 1}, 512, at::kLong)});
                  }),
              ::testing::HasSubstr("position 512 is behind the 512"));
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(testing::kGoldenModels),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(OtherModels, GoldenTest, ::testing::ValuesIn(testing::kOtherGoldenModels),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(RecurrentModels, GoldenTest, ::testing::ValuesIn(testing::kRecurrentGoldenModels),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mneme
