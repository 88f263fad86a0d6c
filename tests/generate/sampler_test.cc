#include "mneme/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/support/floats.h"

namespace mneme {
namespace {

using testing::kInfinity;
using testing::kNan;
using Scores = std::vector<float>;

TEST(SamplerTest, UniformIsAFunctionOfItsKeys) {
  EXPECT_EQ(uniform(1, 2, 3), uniform(1, 2, 3));
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t stream = 0; stream < 10; ++stream) {
      for (std::uint64_t step = 0; step < 10; ++step) seen.insert(uniform(seed, stream, step));
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GE(*seen.begin(), 0.0);
  EXPECT_LT(*seen.rbegin(), 1.0);
}

/// Pearson's statistic of 20,000 draws with the probabilities of softmax(scores).
double chi_square(const Scores& scores, const std::function<double(std::uint64_t)>& number) {
  constexpr int kDraws = 20000;
  std::vector<int> counts(scores.size());
  for (std::uint64_t i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(draw(scores, number(i)))];
  double total = 0, statistic = 0;
  for (const float score : scores) total += std::exp(score);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double expected = kDraws * std::exp(scores[i]) / total;
    if (expected > 0) {
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    } else {
      EXPECT_EQ(counts[i], 0);
    }
  }
  return statistic;
}

TEST(SamplerTest, DrawsByProbabilityOverSeedsAndOverSteps) {
  const Scores scores = {0.0f, 1.0f, -1.0f, 2.0f, -kInfinity, 0.5f, -2.0f};
  // Five degrees of freedom: 20.5 is exceeded once in a thousand times.
  EXPECT_LT(chi_square(scores, [](std::uint64_t i) { return uniform(i, 0, 0); }), 20.5);
  EXPECT_LT(chi_square(scores, [](std::uint64_t i) { return uniform(0, i, 0); }), 20.5);
  EXPECT_LT(chi_square(scores, [](std::uint64_t i) { return uniform(0, 0, i); }), 20.5);
}

TEST(SamplerTest, BannedIdsAndNanAreNeverDrawn) {
  const Scores scores = {-kInfinity, 1.0f, kNan, 1.0f, -kInfinity};
  for (int i = 0; i <= 1000; ++i) {
    const auto id = draw(scores, i / 1000.0);
    EXPECT_TRUE(id == 1 || id == 3) << id;
  }
  EXPECT_EQ(draw(Scores{-kInfinity, -kInfinity}, 0.5), 0);
  EXPECT_EQ(draw(Scores{kNan}, 0.5), 0);
  EXPECT_EQ(draw(Scores{}, 0.5), 0);
}

TEST(SamplerTest, HugeScoresAreNoTrouble) { EXPECT_EQ(draw(Scores{6e4f, -6e4f, 3e38f}, 0.999), 2); }

}  // namespace
}  // namespace mneme
