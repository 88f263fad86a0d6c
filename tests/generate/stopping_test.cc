#include "mneme/generate/stopping.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "mneme/generate/cancellation_token.h"
#include "tests/generate/golden.h"

namespace mneme {
namespace {

using testing::golden_model;
using testing::some_ids;
using testing::tensor_of;
using Ids = std::vector<std::int64_t>;

GenerationSettings settings_of(const GenerateOptions& options) {
  GenerationConfig none;
  return resolve(options, none, 3, 1);
}

std::string spelled(const Ids& ids) {
  std::string text;
  for (const std::int64_t id : ids) text += std::string(1, static_cast<char>('a' + id % 26));
  return text;
}

TEST(StoppingTest, StopStringsAreFoundAcrossTokensWhereverTheyEnd) {
  GenerateOptions options{.max_new_tokens = 1000, .stop_strings = {"xyz", "q"}};
  std::size_t most = 0;
  options.tokenizer_decode = [&](const Ids& ids) {
    most = std::max(most, ids.size());
    return spelled(ids);
  };
  const GenerationSettings settings = settings_of(options);
  const Stopping stopping(settings, options);
  Sequence sequence{.tokens = {23, 24, 25}, .prompt_length = 3};  // a stop string of the prompt is none
  for (int i = 0; i < 500; ++i) {
    sequence.tokens.push_back(i % 5);
    EXPECT_EQ(stopping.reason(sequence), "");
  }
  EXPECT_LE(most, 256u);  // the end of a text, not all of it for every token
  for (const std::int64_t id : {23, 24}) {
    sequence.tokens.push_back(id);
    EXPECT_EQ(stopping.reason(sequence), "");
  }
  sequence.tokens.push_back(25);
  EXPECT_EQ(stopping.reason(sequence), "stop");
}

TEST(StoppingTest, ReasonsHaveAnOrder) {
  GenerateOptions options{
      .max_new_tokens = 2, .max_time = 1e-9, .eos_token_id = Ids{9}, .cancelled = [] { return true; }};
  const GenerationSettings settings = settings_of(options);
  const Stopping stopping(settings, options);
  EXPECT_EQ(stopping.reason({.tokens = {1, 9}, .prompt_length = 1}), "stop");
  EXPECT_EQ(stopping.reason({.tokens = {1, 2, 3}, .prompt_length = 1}), "length");
  EXPECT_EQ(stopping.reason({.tokens = {1, 2}, .prompt_length = 1}), "time");
}

TEST(StoppingTest, OnesOwnCriteriaEndSequencesOneByOne) {
  const auto model = golden_model("llama");
  const GenerateOutput output = model->generate(tensor_of({{5, 6}, {7, 8}}),
                                                {.max_new_tokens = 9, .stopping_criteria = {[](const SequenceView& at) {
                                                                        return at.prompt == 1 && at.n_new() == 4;
                                                                      }}});
  EXPECT_EQ(output.new_tokens[0].size(), 9u);
  EXPECT_EQ(output.new_tokens[1].size(), 4u);
  EXPECT_EQ(output.finish_reasons, std::vector<std::string>({"length", "stop"}));
}

TEST(StoppingTest, ConcurrentCancellationEndsACallWithWhatThereIs) {
  const auto model = golden_model("llama");
  CancellationToken token;
  std::thread other;
  GenerateOptions options{.max_new_tokens = 400, .cancelled = token};
  options.on_token = [&](std::int64_t, std::int64_t) {
    if (!other.joinable()) other = std::thread([copy = token]() mutable { copy.cancel(); });
  };
  const GenerateOutput output = model->generate(tensor_of({some_ids(5)}), options);
  other.join();
  EXPECT_EQ(output.finish_reasons[0], "cancelled");
  EXPECT_GT(output.new_tokens[0].size(), 0u);
  EXPECT_LT(output.new_tokens[0].size(), 400u);
}

}  // namespace
}  // namespace mneme
