#include "mneme/ops/conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/state_runs.h"
#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;
using testing::random_floats;
using testing::StateRuns;
using testing::tensor_of;
using testing::Threads;

constexpr std::int64_t kOffset = 3;

struct Layer {
  std::int64_t n_taps, n_channels;
  ConvWeights weights;

  Layer(std::int64_t taps, std::int64_t channels, bool bias, bool silu) : n_taps(taps), n_channels(channels) {
    weights.taps = tensor_of(random_floats(taps * channels, 1)).view({taps, channels});
    if (bias) weights.bias = tensor_of(random_floats(channels, 2));
    weights.silu = silu;
  }
  std::int64_t n_floats() const { return kOffset + (n_taps - 1) * n_channels; }

  Matrix run(const StateRuns& runs, Matrix& x, bool through_aten = false) const {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix y(x.n, n_channels);
    causal_conv(workspace, runs.runs(), kOffset, x.rows(), weights, y.rows());
    return y;
  }

  double exact(const Matrix& x, std::int64_t first_row, std::int64_t t, std::int64_t c) const {
    double sum = weights.bias.defined() ? weights.bias[c].item<float>() : 0.0;
    for (std::int64_t k = 0; k < n_taps; ++k) {
      const std::int64_t at = t - n_taps + 1 + k;
      if (at >= 0) sum += static_cast<double>(weights.taps[k][c].item<float>()) * x.row(first_row + at)[c];
    }
    return weights.silu ? sum / (1 + std::exp(-sum)) : sum;
  }
};

const std::vector<std::int64_t> kCounts = {5, 1, 2, 9};

TEST(CausalConv, IsRightOnBothPathsAndLeavesTheLastTokensInItsWindow) {
  for (const std::int64_t n_taps : {1, 2, 4}) {
    for (const bool option : {false, true}) {
      const Layer layer(n_taps, 21, /*bias=*/option, /*silu=*/option);
      Matrix x = Matrix::random(17, 40, 3);  // more columns than channels
      for (const bool through_aten : {false, true}) {
        for (const bool in_place : {false, true}) {
          const StateRuns runs(kCounts, layer.n_floats(), 3, in_place);
          const Matrix y = layer.run(runs, x, through_aten);
          for (std::size_t i = 0; i < kCounts.size(); ++i) {
            const StateRun& run = runs.runs()[i];
            for (std::int64_t t = 0; t < run.n_rows; ++t) {
              for (std::int64_t c = 0; c < 21; ++c) {
                ASSERT_NEAR(y.row(run.first_row + t)[c], layer.exact(x, run.first_row, t, c), 3e-6);
              }
            }
            for (std::size_t m = 0; m < run.marks.size(); ++m) {
              const std::vector<float> window = runs.at_mark(i, m);
              for (std::int64_t k = 0; k < n_taps - 1; ++k) {
                const std::int64_t t = run.marks[m].n_rows - n_taps + 1 + k;
                for (std::int64_t c = 0; c < 21; ++c) {
                  ASSERT_EQ(window[kOffset + k * 21 + c], t < 0 ? 0.0f : x.row(run.first_row + t)[c]);
                }
              }
            }
          }
        }
      }
    }
  }
}

// Tokens in pieces, alone or beside others, on any number of threads.
TEST(CausalConv, TheSameBitsHoweverCut) {
  const Layer layer(4, 130, true, true);
  Matrix x = Matrix::random(300, 130, 4);
  const StateRuns whole({300}, layer.n_floats(), 300, true);
  const Matrix expected = layer.run(whole, x);
  for (const int n_threads : {1, 3}) {
    const Threads threads(n_threads);
    for (const std::int64_t piece : {1, 2, 3, 100}) {
      Workspace workspace(at::kCPU);
      const StateRuns runs({300}, layer.n_floats(), 300, true);
      StateRun part = runs.runs()[0];
      Matrix y(300, 130);
      for (std::int64_t first = 0; first < 300; first += piece) {
        const std::int64_t n = std::min<std::int64_t>(piece, 300 - first);
        const StateMark mark{n, part.marks.back().states};
        const StateRun run{.before = part.before, .first_row = 0, .n_rows = n, .marks = {&mark, 1}};
        causal_conv(workspace, {&run, 1}, kOffset, x.rows(first, n), layer.weights, y.rows(first, n));
      }
      EXPECT_EQ(bits(y.values), bits(expected.values)) << piece;
      EXPECT_EQ(bits(runs.after(0)), bits(whole.after(0))) << piece;
    }
  }
}

TEST(CausalConv, ShapesThatDoNotFit) {
  const Layer layer(4, 8, false, false);
  const StateRuns runs({2}, layer.n_floats(), 2, true);
  Workspace workspace(at::kCPU);
  Matrix narrow(2, 7), x(2, 8), y(2, 8), short_y(1, 8);
  const auto refuse = [&](Matrix& from, Matrix& to) {
    return testing::thrown(ErrorKind::kInvalidArgument, [&] {
      causal_conv(workspace, runs.runs(), kOffset, from.rows(), layer.weights, to.rows());
    });
  };
  EXPECT_THAT(refuse(narrow, y), ::testing::HasSubstr("x [2, 7]"));
  refuse(x, short_y);
  const Layer many(kMaxTaps + 1, 8, false, false);
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument,
                              [&] { causal_conv(workspace, runs.runs(), kOffset, x.rows(), many.weights, y.rows()); }),
              ::testing::HasSubstr("33 taps"));
}

}  // namespace
}  // namespace mneme::ops
