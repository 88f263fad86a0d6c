#include "mneme/generate/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mneme/generate/logits.h"
#include "tests/support/floats.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::kInfinity;
using testing::kNan;
using testing::thrown;
using Scores = std::vector<float>;
using Row = std::vector<std::int64_t>;

Scores scores_of(const Json& json) {
  Scores scores;
  for (const Json& x : json) {
    scores.push_back(x.is_null() ? -kInfinity : x == "nan" ? kNan : x == "inf" ? kInfinity : x.get<float>());
  }
  return scores;
}

GenerationSettings settings_of(const Json& json, const Row& eos, std::int64_t prompt_length = 6) {
  GenerateOptions call{.max_new_tokens = 6, .eos_token_id = eos};
  return resolve(call, GenerationConfig::from_json(json, "processors.json"), prompt_length, 1);
}

void process(const GenerationSettings& settings, Scores& scores, const SequenceView& view) {
  for (const LogitsProcessor& processor : make_processors(settings, std::ssize(scores))) processor(scores, view);
}

TEST(ProcessorsTest, ScoresAreTransformers) {
  const Json golden = read_json_file(testing::test_data("processors.json"));
  ASSERT_GT(golden["cases"].size(), 600u);
  for (const Json& c : golden["cases"]) {
    SCOPED_TRACE(c["settings"].dump() + " allowed " + c["allowed"].dump() + " new " + c["n_new"].dump());
    Scores scores = scores_of(c["scores"]);
    const Scores before = scores, expected = scores_of(c["processed"]);
    const auto tokens = c["tokens"].get<Row>(), source = c["source"].get<Row>();
    const auto prompt_length = c["prompt_length"].get<std::int64_t>();
    GenerationSettings settings = settings_of(c["settings"], c["eos_token_id"].get<Row>(), prompt_length);
    if (!c["allowed"].is_null()) {
      settings.options.prefix_allowed_tokens_fn = [&](std::int64_t, std::span<const std::int64_t>) {
        return c["allowed"].get<Row>();
      };
    }
    process(settings, scores, {.tokens = tokens, .prompt_length = prompt_length, .source = source});
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (std::isinf(expected[i])) {
        EXPECT_EQ(scores[i], expected[i]) << i << ", before " << before[i];
      } else {
        EXPECT_NEAR(scores[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i]))) << i;
      }
    }
  }
}

TEST(ProcessorsTest, NothingIsDoneWhereNothingIsAskedFor) {
  EXPECT_TRUE(make_processors(settings_of(Json::object(), {2}), 48).empty());
  EXPECT_EQ(make_processors(settings_of({{"do_sample", true}}, {2}), 48).size(), 1u);  // top_k 50
  EXPECT_TRUE(make_processors(settings_of({{"do_sample", true}, {"top_k", 0}, {"top_p", 1.0}}, {2}), 48).empty());
  EXPECT_TRUE(make_processors(settings_of({{"do_sample", true}, {"temperature", 0.0}}, {2}), 48).empty());
  EXPECT_TRUE(make_processors(settings_of({{"bad_words_ids", Json::array()}, {"sequence_bias", Json::array()}}, {}), 48)
                  .empty());
}

TEST(ProcessorsTest, OnesOwnRunBeforeWhatNarrowsADraw) {
  GenerationSettings settings = settings_of({{"do_sample", true}, {"top_k", 1}, {"suppress_tokens", {3}}}, {});
  settings.options.logits_processors.push_back([](std::span<float> scores, const SequenceView& at) {
    EXPECT_EQ(scores[3], -kInfinity);  // behind the library's penalties
    EXPECT_EQ(at.n_new(), 1);
    scores[1] = 50;
  });
  Scores scores = {1, 2, 3, 4};
  process(settings, scores, {.tokens = Row{7, 8}, .prompt_length = 1});
  EXPECT_EQ(scores, Scores({-kInfinity, 50, -kInfinity, -kInfinity}));
}

// From public reports (M4): "no eos" written as -1 must not touch the last id of the vocabulary.
TEST(ProcessorsTest, WithoutAnEosMinimaBanNothing) {
  for (const Row& eos : {Row{}, Row{-1, 3}}) {
    Scores scores = {1, 2, 3};
    process(settings_of({{"min_new_tokens", 5}, {"min_length", 50}}, eos), scores, {.tokens = Row{0}});
    EXPECT_EQ(scores, Scores({1, 2, 3}));
  }
}

TEST(ProcessorsTest, IdsOutsideTheVocabularyAreRefusedByName) {
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"bad_words_ids", Json::parse("[[1, 48]]")},
                                                           {"sequence_bias", Json::parse("[[[48], 1.0]]")},
                                                           {"forced_bos_token_id", 48},
                                                           {"forced_eos_token_id", 48}}) {
    const std::string message = thrown(ErrorKind::kInvalidArgument, [&] {
      const GenerationSettings settings = settings_of({{key, value}}, {2});
      make_processors(settings, 48);
    });
    EXPECT_THAT(message, HasSubstr(key));
    EXPECT_THAT(message, HasSubstr("48"));
  }
}

TEST(ProcessorsTest, AConstraintThatAllowsNothingIsAnError) {
  GenerationSettings settings = settings_of(Json::object(), {});
  settings.options.prefix_allowed_tokens_fn = [](std::int64_t, std::span<const std::int64_t>) { return Row{}; };
  Scores scores = {1, 2};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       process(settings, scores, {.tokens = Row{4, 5}, .prompt = 3});
                     }),
              HasSubstr("prompt 3"));
}

}  // namespace
}  // namespace mneme
