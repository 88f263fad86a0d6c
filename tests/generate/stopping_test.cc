#include "mneme/generate/stopping.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "mneme/generate/cancellation_token.h"
#include "mneme/text/tokenizer.h"
#include "tests/generate/golden.h"
#include "tests/support/places.h"

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
  Sequence sequence{.tokens = {23, 24, 25}, .prompt_length = 3};  // one that is whole in the prompt is none
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

// Parity: what transformers' StopStringCriteria says of these tokens.
TEST(StoppingTest, TheLastTokenMustCompleteAStopStringThatMayBeginInThePrompt) {
  const std::vector<std::string> texts = {"x", "st", "op", "s", "t", "o", "p", "stop", "toph"};
  GenerateOptions options{.max_new_tokens = 1000, .min_new_tokens = 100, .stop_strings = {"stop"}};
  options.tokenizer_decode = [&](const Ids& ids) {
    std::string text;
    for (const std::int64_t id : ids) text += texts[static_cast<std::size_t>(id)];
    return text;
  };
  const GenerationSettings settings = settings_of(options);
  const Stopping stopping(settings, options);
  const auto ends = [&](const Ids& ids, std::int64_t prompt_length) {
    return stopping.reason({.tokens = ids, .prompt_length = prompt_length}) == "stop";
  };
  EXPECT_TRUE(ends({0, 1, 2}, 2));  // begins in the prompt
  EXPECT_TRUE(ends({0, 1, 2}, 1));
  EXPECT_FALSE(ends({1, 2, 0}, 2));  // was whole before
  EXPECT_TRUE(ends({0, 7}, 1));
  EXPECT_TRUE(ends({3, 8}, 1));  // goes on behind it
  EXPECT_FALSE(ends({7, 0}, 1));
  EXPECT_TRUE(ends({3, 4, 5, 6}, 3));
  EXPECT_FALSE(ends({2}, 0));
  EXPECT_TRUE(ends({7, 7}, 1));
}

TEST(StoppingTest, TextsEndWhereTransformersEndsThem) {
  const Json golden = read_json_file(testing::test_data("stopping.json"));
  std::map<std::string, Tokenizer> tokenizers;
  ASSERT_GT(golden["strings"].size(), 100u);
  for (const Json& c : golden["strings"]) {
    SCOPED_TRACE(c.dump());
    const auto name = c["tokenizer"].get<std::string>();
    if (!tokenizers.contains(name)) {
      const Json file = read_json_file(testing::test_data("tokenizers/" + name + ".json"));
      tokenizers.emplace(name, Tokenizer::from_json(file["tokenizer"], file["config"]));
    }
    GenerateOptions options{.max_new_tokens = 1000, .stop_strings = c["stop_strings"].get<std::vector<std::string>>()};
    options.tokenizer_decode = [&](const Ids& ids) { return tokenizers.at(name).decode(ids); };
    const GenerationSettings settings = settings_of(options);
    const Stopping stopping(settings, options);
    const auto ids = c["ids"].get<Ids>();
    for (const std::int64_t prompt_length : {std::int64_t{1}, std::ssize(ids) - 1})
      EXPECT_EQ(stopping.reason({.tokens = ids, .prompt_length = prompt_length}) == "stop", c["ends"].get<bool>());
  }
  for (const Json& c : golden["eos"]) {
    SCOPED_TRACE(c.dump());
    const GenerateOptions options{.max_new_tokens = 1000, .eos_token_id = c["eos_token_id"].get<Ids>()};
    const GenerationSettings settings = settings_of(options);
    const Stopping stopping(settings, options);
    EXPECT_EQ(stopping.reason({.tokens = c["ids"].get<Ids>()}) == "stop", c["ends"].get<bool>());
  }
  for (const Json& c : golden["lengths"]) {
    SCOPED_TRACE(c.dump());
    const GenerateOptions options{.max_length = c["max_length"].get<std::int64_t>()};
    const GenerationSettings settings = settings_of(options);
    const Stopping stopping(settings, options);
    const Ids ids(c["length"].get<std::size_t>());
    EXPECT_EQ(stopping.reason({.tokens = ids, .prompt_length = 3}) == "length", c["ends"].get<bool>());
  }
}

TEST(StoppingTest, ACharacterOfSeveralTokensCompletesAStopStringWithItsLastByte) {
  GenerateOptions options{.max_new_tokens = 9, .stop_strings = {"\u00e9"}};
  options.tokenizer_decode = [](const Ids& ids) -> std::string {  // two tokens are one character
    return ids.size() == 3 ? "a\u00e9" : ids.size() == 2 ? "a\ufffd" : "a";
  };
  const GenerationSettings settings = settings_of(options);
  const Stopping stopping(settings, options);
  EXPECT_EQ(stopping.reason({.tokens = {1, 2}, .prompt_length = 1}), "");
  EXPECT_EQ(stopping.reason({.tokens = {1, 2, 3}, .prompt_length = 1}), "stop");
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
