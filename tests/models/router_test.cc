#include "mneme/models/router.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/matrix.h"

namespace mneme {
namespace {

using testing::Matrix;
using testing::tensor_of;

struct Chosen {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

/// The routes of one token.
Chosen chosen(const RouterOptions& options, const std::vector<float>& logits) {
  ops::Workspace workspace(at::kCPU);
  Matrix row(1, std::ssize(logits));
  row.values = logits;
  const Routes routes = route(workspace, options, row.rows());
  return {{routes.experts, routes.experts + options.n_chosen}, {routes.weights, routes.weights + options.n_chosen}};
}

TEST(Router, TheBestComeFirstAndEqualOnesByNumber) {
  const RouterOptions options{.n_experts = 5, .n_chosen = 3};
  EXPECT_EQ(chosen(options, {1, 3, 2, 3, 0}).experts, (std::vector<std::int32_t>{1, 3, 2}));
  EXPECT_EQ(chosen(options, {1, 1, 1, 1, 1}).experts, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Router, WeightsAreASoftmaxOfAllOrOfTheChosen) {
  const std::vector<float> logits = {1, 3, 2, 0};
  const double all = std::exp(1) + std::exp(3) + std::exp(2) + 1, both = std::exp(3) + std::exp(2);
  const Chosen normalized = chosen({.n_experts = 4, .n_chosen = 2}, logits);
  EXPECT_NEAR(normalized.weights[0], std::exp(3) / both, 1e-6);
  EXPECT_NEAR(normalized.weights[1], std::exp(2) / both, 1e-6);
  const Chosen plain = chosen({.n_experts = 4, .n_chosen = 2, .normalized = false, .scale = 2.5f}, logits);
  EXPECT_NEAR(plain.weights[0], 2.5 * std::exp(3) / all, 1e-6);
  EXPECT_NEAR(plain.weights[1], 2.5 * std::exp(2) / all, 1e-6);
}

TEST(Router, ABiasChangesTheChoiceAndNotTheWeights) {
  const RouterOptions options{
      .n_experts = 4, .n_chosen = 2, .sigmoid = true, .normalized = false, .choice_bias = tensor_of({0, 0, 0, 10})};
  const Chosen result = chosen(options, {-1, 2, 1, -3});
  EXPECT_EQ(result.experts, (std::vector<std::int32_t>{3, 1}));
  EXPECT_NEAR(result.weights[0], 1 / (1 + std::exp(3)), 1e-6);
  EXPECT_NEAR(result.weights[1], 1 / (1 + std::exp(-2)), 1e-6);
}

// The best expert of all is in a group that is worse than another two together.
TEST(Router, OnlyExpertsOfTheBestGroupsAreChosen) {
  const RouterOptions options{.n_experts = 6, .n_chosen = 2, .sigmoid = true, .n_groups = 3, .n_chosen_groups = 1};
  EXPECT_EQ(chosen(options, {3, -9, 2, 2.5f, 1, 1}).experts, (std::vector<std::int32_t>{3, 2}));
}

TEST(Router, RowsAreRoutedForThemselves) {
  const RouterOptions options{.n_experts = 40, .n_chosen = 6};
  Matrix logits = Matrix::random(500, 40, 1);
  ops::Workspace workspace(at::kCPU);
  const Routes all = route(workspace, options, logits.rows());
  for (std::int64_t i = 0; i < 500; i += 77) {
    const Chosen one = chosen(options, {logits.row(i), logits.row(i + 1)});
    for (std::int64_t r = 0; r < 6; ++r) {
      EXPECT_EQ(all.experts[i * 6 + r], one.experts[static_cast<std::size_t>(r)]);
      EXPECT_EQ(all.weights[i * 6 + r], one.weights[static_cast<std::size_t>(r)]);
    }
  }
}

}  // namespace
}  // namespace mneme
