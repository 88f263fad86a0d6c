#include "mneme/generate/fallback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/base/log.h"
#include "tests/generate/golden.h"
#include "tests/support/default_model.h"
#include "tests/support/random_model.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

/// Bytes between what both caches need: the offloaded one keeps less in memory.
std::int64_t budget_between(const CausalLM& model, const Ids& prompt, GenerateOptions options) {
  const std::int64_t dynamic = model.generate(tensor_of({prompt}), options).cache_bytes;
  options.cache_config.offloading = true;
  const std::int64_t offloaded = model.generate(tensor_of({prompt}), options).cache_bytes;
  EXPECT_LT(offloaded, dynamic);
  return (dynamic + offloaded) / 2;
}

TEST(FallbackTest, GivesTheSameTokensAndStreamsEachOnce) {
  const auto model = golden_model("llama");
  const Ids prompt = some_ids(450);
  for (const GenerateOptions& plain :
       {GenerateOptions{.max_new_tokens = 40}, GenerateOptions{.max_new_tokens = 20, .num_beams = 4},
        GenerateOptions{.max_new_tokens = 20, .do_sample = true, .num_return_sequences = 3, .seed = 1}}) {
    const GenerateOutput expected = model->generate(tensor_of({prompt}), plain);
    GenerateOptions limited = plain;
    limited.cache_config.max_cache_bytes = budget_between(*model, prompt, plain);
    thrown(ErrorKind::kOutOfMemory, [&] { model->generate(tensor_of({prompt}), limited); });
    limited.offload_if_out_of_memory = true;
    std::vector<Ids> streamed(3);
    limited.on_token = [&](std::int64_t row, std::int64_t id) {
      streamed[static_cast<std::size_t>(row)].push_back(id);
    };
    std::vector<std::string> warnings;
    set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
    const GenerateOutput output = model->generate(tensor_of({prompt}), limited);
    set_warning_handler({});
    EXPECT_EQ(output.new_tokens, expected.new_tokens);
    EXPECT_EQ(output.cache_implementation, "offloaded");
    EXPECT_LE(output.cache_bytes, *limited.cache_config.max_cache_bytes);
    streamed.resize(output.new_tokens.size());
    EXPECT_EQ(streamed, output.new_tokens);
    EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr("offloaded")));
  }
}

// Said beforehand, used when it is needed.
TEST(FallbackTest, TheFolderIsOfTheSecondRun) {
  const auto model = golden_model("llama");
  const Ids prompt = some_ids(450);
  GenerateOptions options{.max_new_tokens = 4};
  options.cache_config.max_cache_bytes = budget_between(*model, prompt, options);
  options.cache_config.offload_folder = "/nowhere/at/all";
  options.offload_if_out_of_memory = true;
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { model->generate(tensor_of({prompt}), options); }),
              ::testing::HasSubstr("/nowhere/at/all"));
  options.cache_config.max_cache_bytes = std::nullopt;
  EXPECT_EQ(model->generate(tensor_of({prompt}), options).cache_implementation, "dynamic");
}

TEST(FallbackTest, ABudgetThatIsTooSmallForBothIsAnError) {
  const auto model = golden_model("llama");
  thrown(ErrorKind::kOutOfMemory, [&] {
    model->generate(tensor_of({some_ids(450)}),
                    {.max_new_tokens = 4, .cache_config = {.max_cache_bytes = 1000}, .offload_if_out_of_memory = true});
  });
}

/// The example of transformers' documents: 40 beams over a long prompt.
void expect_forty_beams_fall_back(const CausalLM& model, std::int64_t vocabulary) {
  const Ids prompt = some_ids(1000, 1, vocabulary);
  GenerateOptions options{.max_new_tokens = 2, .num_beams = 40, .eos_token_id = Ids{}};
  const GenerateOutput expected = model.generate(tensor_of({prompt}), options);
  options.cache_config.max_cache_bytes = budget_between(model, prompt, options);
  thrown(ErrorKind::kOutOfMemory, [&] { model.generate(tensor_of({prompt}), options); });
  options.offload_if_out_of_memory = true;
  const GenerateOutput output = model.generate(tensor_of({prompt}), options);
  EXPECT_EQ(output.new_tokens, expected.new_tokens);
  EXPECT_EQ(output.sequences_scores, expected.sequences_scores);
  EXPECT_EQ(output.cache_implementation, "offloaded");
  EXPECT_LE(output.cache_bytes, *options.cache_config.max_cache_bytes);
}

TEST(FallbackTest, FortyBeamsOverAThousandTokensOfARandomModel) {
  const testing::TempFolder folder;
  const auto model = AutoModelForCausalLM::from_pretrained(testing::random_checkpoint().write(folder));
  expect_forty_beams_fall_back(*model, 512);
}

TEST(FallbackTest, FortyBeamsOverAThousandTokensOfTheDefaultModel) {
  const std::string path = testing::default_model_path();
  if (path.empty()) GTEST_SKIP() << testing::kNoDefaultModel;
  const auto model = AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  expect_forty_beams_fall_back(*model, 40000);
}

}  // namespace
}  // namespace mneme
