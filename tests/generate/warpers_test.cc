#include "mneme/generate/warpers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mneme/generate/logits.h"
#include "tests/support/floats.h"

namespace mneme {
namespace {

using testing::kInfinity;
using Scores = std::vector<float>;

// From public reports (M1): temperatures that overflow, logits of float16's size.
TEST(WarpersTest, TinyTemperaturesDoNotOverflow) {
  for (const double temperature : {1e-4, 1e-8, 1e-38, 1e-300}) {
    Scores scores = {6e4f, -6e4f, 6e4f, 5.9e4f, -kInfinity};
    apply_temperature(scores, temperature);
    EXPECT_EQ(scores[0], scores[2]);
    EXPECT_LE(scores[1], scores[3]);
    EXPECT_LT(scores[3], scores[0]);
    EXPECT_EQ(scores[4], -kInfinity);
    for (const float score : scores) EXPECT_FALSE(std::isnan(score) || score == kInfinity);
  }
}

TEST(WarpersTest, LimitsKeepAtLeastOneIdAndAllOfATie) {
  Scores scores = {1, 3, 3, 2};
  keep_top_k(scores, 1);
  EXPECT_EQ(scores, Scores({-kInfinity, 3, 3, -kInfinity}));
  const Scores best = {-kInfinity, 3, -kInfinity};
  const auto limited = [](const auto& warp) {
    Scores s = {1, 3, 2};
    warp(s);
    return s;
  };
  EXPECT_EQ(limited([](auto& s) { keep_top_p(s, 0.0); }), best);
  EXPECT_EQ(limited([](auto& s) { keep_min_p(s, 1.0); }), best);
  EXPECT_EQ(limited([](auto& s) { keep_top_h(s, 1e-9); }), best);
  EXPECT_EQ(limited([](auto& s) { cut_epsilon(s, 0.999); }), best);
  EXPECT_EQ(limited([](auto& s) { cut_eta(s, 0.999); }), best);
  EXPECT_EQ(limited([](auto& s) { keep_typical(s, 1e-9); }).size(), 3u);
  const Scores all = {1, 3, 2};
  EXPECT_EQ(limited([](auto& s) { keep_top_k(s, 0); }), all);
  EXPECT_EQ(limited([](auto& s) { keep_top_k(s, 100); }), all);
  EXPECT_EQ(limited([](auto& s) { keep_top_p(s, 1.0); }), all);
  EXPECT_EQ(limited([](auto& s) { keep_min_p(s, 0.0); }), all);
  EXPECT_EQ(limited([](auto& s) { keep_top_h(s, 1.0); }), all);
  EXPECT_EQ(limited([](auto& s) { keep_typical(s, 1.0); }), all);
  EXPECT_EQ(limited([](auto& s) { cut_epsilon(s, 0.0); }), all);
  EXPECT_EQ(limited([](auto& s) { cut_eta(s, 0.0); }), all);
}

TEST(WarpersTest, NothingHappensWhereNothingIsLeft) {
  Scores scores(5, -kInfinity);
  apply_temperature(scores, 0.5);
  keep_top_k(scores, 2);
  keep_top_p(scores, 0.5);
  keep_min_p(scores, 0.5);
  keep_top_h(scores, 0.5);
  keep_typical(scores, 0.5);
  cut_epsilon(scores, 0.5);
  cut_eta(scores, 0.5);
  EXPECT_EQ(scores, Scores(5, -kInfinity));
}

TEST(WarpersTest, ABeamKeepsMoreThanOne) {
  const auto n_kept = [](const auto& warp) {
    Scores s = {5, 1, 2, 3, 4};
    warp(s);
    return 5 - std::count(s.begin(), s.end(), -kInfinity);
  };
  EXPECT_EQ(n_kept([](auto& s) { keep_top_k(s, 1, 3); }), 3);
  EXPECT_EQ(n_kept([](auto& s) { keep_top_p(s, 0.0, 3); }), 3);
  EXPECT_EQ(n_kept([](auto& s) { keep_min_p(s, 1.0, 3); }), 3);
  EXPECT_EQ(n_kept([](auto& s) { cut_epsilon(s, 0.99, 3); }), 3);
  EXPECT_EQ(n_kept([](auto& s) { cut_eta(s, 0.99, 3); }), 3);
  EXPECT_GE(n_kept([](auto& s) { keep_typical(s, 1e-9, 3); }), 3);
}

}  // namespace
}  // namespace mneme
