#include "mneme/generate/logits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/floats.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::kInfinity;
using testing::kNan;
using Scores = std::vector<float>;

TEST(LogitsTest, TheBestOfEqualsIsTheLowestAndNeverNan) {
  EXPECT_EQ(argmax(Scores{1, 5, 5}), 1);
  EXPECT_EQ(argmax(Scores{kNan, 1, kNan}), 1);
  EXPECT_EQ(argmax(Scores{kNan, kNan}), 0);
  EXPECT_EQ(argmax(Scores{-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(argmax(Scores{-kInfinity, -3e38f}), 1);
  EXPECT_EQ(argmax(Scores{}), 0);
}

TEST(LogitsTest, TheBestOfManyIsFoundInEveryPart) {
  for (const std::size_t n : {1023u, 1024u, 1025u, 5000u}) {
    Scores scores(n, -2.0f);
    scores[n / 2] = kNan;
    for (const std::size_t place : {std::size_t{0}, std::size_t{1}, n / 2 - 1, n / 2 + 1, n - 1}) {
      scores[place] = -1.0f;
      if (place + 7 < n / 2) scores[place + 7] = -1.0f;
      EXPECT_EQ(argmax(scores), static_cast<std::int64_t>(place)) << n;
      for (float& score : scores) score = score == -1.0f ? -2.0f : score;
    }
    scores[n / 3] = kInfinity;
    EXPECT_EQ(argmax(scores), static_cast<std::int64_t>(n / 3));
  }
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

TEST(LogitsTest, LogProbabilitiesSumToOne) {
  Scores scores = {1, 2, -kInfinity, 1e4f};
  log_softmax(scores);
  EXPECT_EQ(scores[3], 0.0f);
  EXPECT_EQ(scores[2], -kInfinity);
  EXPECT_FLOAT_EQ(scores[0], -9999.0f);
  EXPECT_DOUBLE_EQ(log_sum_exp(Scores{0, 0}), std::log(2.0));
  Scores nothing(3, -kInfinity);
  log_softmax(nothing);
  EXPECT_EQ(nothing, Scores(3, -kInfinity));
}

}  // namespace
}  // namespace mneme
