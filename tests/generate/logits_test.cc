#include "mneme/generate/logits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/floats.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::kInfinity;
using testing::kNan;
using Scores = std::vector<float>;
using Ids = std::vector<std::int64_t>;

GenerationSettings settings_of(const Json& json, Ids eos) {
  GenerateOptions options;
  const GenerationConfig config = GenerationConfig::from_json(json, "processors.json");
  options.max_new_tokens = 10;
  GenerationSettings settings = resolve(options, config, 6, 1);
  settings.eos_token_id = std::move(eos);
  return settings;
}

TEST(LogitsTest, ProcessesAsTransformersDoes) {
  const Json golden = read_json_file(testing::test_data("processors.json"));
  ASSERT_GT(golden["cases"].size(), 40u);
  for (const Json& c : golden["cases"]) {
    SCOPED_TRACE(c["settings"].dump() + " " + c["n_new"].dump());
    auto scores = c["scores"].get<Scores>();
    const auto settings = settings_of(c["settings"], c["eos_token_id"].get<Ids>());
    process_logits(scores, c["tokens"].get<Ids>(), c["n_new"].get<std::int64_t>(), settings);
    // Temperature is taken relative to the largest score, which adds a constant to all.
    const Json& expected = c["processed"];
    const auto best = static_cast<std::size_t>(argmax(scores));
    ASSERT_TRUE(expected[best].is_number());
    const double shift = expected[best].get<double>() - scores[best];
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (expected[i].is_null()) {
        EXPECT_EQ(scores[i], -kInfinity) << i;
      } else {
        EXPECT_NEAR(scores[i] + shift, expected[i].get<double>(), 1e-5) << i;
      }
    }
  }
}

TEST(LogitsTest, APenaltyCountsOnceHoweverOftenATokenOccurs) {
  Scores scores = {2.2f, -1.0f, 3.0f};
  penalize_repetition(scores, Ids(20, 0), 1.1);
  EXPECT_FLOAT_EQ(scores[0], 2.0f);
  penalize_repetition(scores, Ids{1, 1}, 1.1);
  EXPECT_FLOAT_EQ(scores[1], -1.1f);
  EXPECT_EQ(scores[2], 3.0f);
}

TEST(LogitsTest, WithoutAnEosMinNewTokensBansNothing) {
  Scores scores = {1, 2, 3};
  process_logits(scores, Ids{0}, 0, settings_of(Json{{"min_new_tokens", 5}}, {}));
  EXPECT_EQ(scores, Scores({1, 2, 3}));
  process_logits(scores, Ids{0}, 0, settings_of(Json{{"min_new_tokens", 5}}, {-1, 3}));  // ids that are not there
  EXPECT_EQ(scores, Scores({1, 2, 3}));
}

TEST(LogitsTest, TinyTemperaturesDoNotOverflow) {
  for (const double temperature : {1e-4, 1e-8, 1e-300}) {
    Scores scores = {6e4f, -6e4f, 6e4f, 5.9e4f};
    apply_temperature(scores, temperature);
    EXPECT_EQ(scores[0], 0.0f);
    EXPECT_EQ(scores[2], 0.0f);
    EXPECT_LE(scores[1], scores[3]);
    EXPECT_LT(scores[3], 0.0f);
    EXPECT_FALSE(std::isnan(scores[1]) || std::isnan(scores[3]));
  }
}

TEST(LogitsTest, LimitsKeepAtLeastOneIdAndAllOfATie) {
  Scores scores = {1, 3, 3, 2};
  keep_top_k(scores, 1);
  EXPECT_EQ(scores, Scores({-kInfinity, 3, 3, -kInfinity}));
  scores = {1, 3, 2};
  keep_top_p(scores, 0.0);
  EXPECT_EQ(scores, Scores({-kInfinity, 3, -kInfinity}));
  scores = {1, 3, 2};
  keep_min_p(scores, 1.0);
  EXPECT_EQ(scores, Scores({-kInfinity, 3, -kInfinity}));
  scores = {1, 3, 2};
  keep_top_k(scores, 0);
  keep_top_k(scores, 100);
  keep_top_p(scores, 1.0);
  keep_min_p(scores, 0.0);
  EXPECT_EQ(scores, Scores({1, 3, 2}));
}

TEST(LogitsTest, TheBestOfEqualsIsTheLowestAndNeverNan) {
  EXPECT_EQ(argmax(Scores{1, 5, 5}), 1);
  EXPECT_EQ(argmax(Scores{kNan, 1, kNan}), 1);
  EXPECT_EQ(argmax(Scores{kNan, kNan}), 0);
  EXPECT_EQ(argmax(Scores{-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(argmax(Scores{-kInfinity, -3e38f}), 1);
  EXPECT_EQ(argmax(Scores{}), 0);
}

TEST(LogitsTest, LogitsThatAreNoNumbersAreAnError) {
  std::vector<float> logits(67, 1.0f);
  logits[3] = -kInfinity;  // a ban is none
  EXPECT_NO_THROW(check_finite(logits));
  for (const float bad : {kNan, kInfinity}) {
    for (const std::size_t place : {0u, 31u, 66u}) {
      std::vector<float> broken = logits;
      broken[place] = bad;
      testing::thrown(ErrorKind::kFailedPrecondition, [&] { check_finite(broken); });
    }
  }
}

TEST(LogitsTest, GapIsBetweenTheTwoBest) {
  EXPECT_EQ(top_gap(Scores{1, 7, 4}), 3.0f);
  EXPECT_EQ(top_gap(Scores{7, 7}), 0.0f);
  EXPECT_EQ(top_gap(Scores{7, -kInfinity}), kInfinity);
}

}  // namespace
}  // namespace mneme
