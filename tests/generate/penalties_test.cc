#include "mneme/generate/penalties.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/floats.h"

namespace mneme {
namespace {

using testing::kInfinity;
using testing::kNan;
using Scores = std::vector<float>;
using Row = std::vector<std::int64_t>;

// From public reports (M4): a penalty per occurrence.
TEST(PenaltiesTest, APenaltyCountsOnceHoweverOftenATokenOccurs) {
  Scores scores = {2.2f, -1.0f, 3.0f};
  penalize_repetition(scores, Row(20, 0), 1.1);
  EXPECT_FLOAT_EQ(scores[0], 2.0f);
  penalize_repetition(scores, Row{1, 1}, 1.1);
  EXPECT_FLOAT_EQ(scores[1], -1.1f);
  EXPECT_EQ(scores[2], 3.0f);
}

TEST(PenaltiesTest, IdsThatTheHeadCannotSayArePassedOver) {
  Scores scores = {1, 2};
  penalize_repetition(scores, Row{5, -1}, 2);
  ban(scores, Row{5, -1});
  bias_sequences(scores, Row{}, std::vector<SequenceBias>{{{5}, 1}});
  ban_ngrams(scores, Row{}, Row{7, 9}, 1);
  EXPECT_EQ(scores, Scores({1, 2}));
}

TEST(PenaltiesTest, AnNgramIsBannedWhereItWouldBeWhole) {
  Scores scores(6, 0.0f);
  ban_ngrams(scores, Row{1, 2, 3, 1, 2}, Row{1, 2, 3, 1, 2}, 3);
  EXPECT_EQ(scores, Scores({0, 0, 0, -kInfinity, 0, 0}));
  scores.assign(6, 0.0f);
  ban_ngrams(scores, Row{1, 2}, Row{1, 2}, 3);  // its own end is no occurrence
  EXPECT_EQ(scores, Scores(6, 0.0f));
}

TEST(PenaltiesTest, WhatIsAllowedKeepsItsScoreUnlessAllOfItWasBanned) {
  Scores scores = {1, 2, -kInfinity};
  allow_only(scores, Row{0, 2}, true);
  EXPECT_EQ(scores, Scores({1, -kInfinity, -kInfinity}));
  allow_only(scores, Row{2}, true);
  EXPECT_EQ(scores, Scores({-kInfinity, -kInfinity, 0}));
  scores = {1, 2, -kInfinity};
  allow_only(scores, Row{2}, false);
  EXPECT_EQ(scores, Scores(3, -kInfinity));
}

TEST(PenaltiesTest, InvalidValuesBecomeNumbers) {
  Scores scores = {kNan, kInfinity, -kInfinity, 3};
  remove_invalid(scores);
  EXPECT_EQ(scores, Scores({0, 3.402823466e38f, -3.402823466e38f, 3}));
}

}  // namespace
}  // namespace mneme
