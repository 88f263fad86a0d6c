#include "mneme/ops/scan.h"

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

constexpr std::int64_t kOffset = 16;

/// What the scan has in the states of a sequence.
std::vector<std::uint32_t> scan_bits(const std::vector<float>& states) {
  return bits({states.begin() + kOffset, states.end()});
}

struct Layer {
  std::int64_t n_channels, n_states;
  at::Tensor a;  // [C, n]
  ScanWeights weights;
  Matrix u, time_step, b_and_c, gate;

  Layer(std::int64_t channels, std::int64_t states, std::int64_t n_tokens)
      : n_channels(channels),
        n_states(states),
        a(-at::exp(tensor_of(random_floats(channels * states, 1)).view({channels, states}))),
        weights{.a = scan_panels(a), .d = tensor_of(random_floats(channels, 2))},
        u(Matrix::random(n_tokens, channels, 3)),
        time_step(Matrix::random(n_tokens, channels, 4)),
        b_and_c(Matrix::random(n_tokens, 2 * states, 5)),
        gate(Matrix::random(n_tokens, channels + 5, 6)) {}

  std::int64_t n_floats() const { return kOffset + scan_state_floats(n_channels, n_states); }

  ScanInputs inputs(std::int64_t first, std::int64_t n) {
    return {.u = u.rows(first, n),
            .time_step = time_step.rows(first, n),
            .b_and_c = b_and_c.rows(first, n),
            .gate = gate.rows(first, n),
            .gate_offset = 5};
  }

  Matrix run(const StateRuns& runs, bool through_aten = false) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix y(u.n, n_channels);
    selective_scan(workspace, runs.runs(), kOffset, inputs(0, u.n), weights, y.rows());
    return y;
  }

  void expect_exact(const StateRun& run, const Matrix& y, const std::vector<float>& after) const {
    for (std::int64_t c = 0; c < n_channels; ++c) {
      std::vector<double> h(static_cast<std::size_t>(n_states));
      for (std::int64_t row = run.first_row; row < run.first_row + run.n_rows; ++row) {
        const double delta = std::log1p(std::exp(static_cast<double>(time_step.row(row)[c]))), ut = u.row(row)[c],
                     z = gate.row(row)[5 + c];
        double sum = ut * weights.d[c].item<float>();
        for (std::int64_t j = 0; j < n_states; ++j) {
          h[j] = std::exp(delta * a[c][j].item<float>()) * h[j] + delta * ut * b_and_c.row(row)[j];
          sum += h[j] * b_and_c.row(row)[n_states + j];
        }
        ASSERT_NEAR(y.row(row)[c], sum * z / (1 + std::exp(-z)), 1e-5 * static_cast<double>(n_states));
      }
      for (std::int64_t j = 0; j < n_states; ++j) {
        ASSERT_NEAR(after[kOffset + (c / 16 * n_states + j) * 16 + c % 16], h[j], 1e-5);
      }
    }
  }
};

TEST(SelectiveScan, IsRightOnBothPaths) {
  const std::vector<std::int64_t> counts = {5, 1, 2, 9};
  for (const std::int64_t n_channels : {3, 16, 37}) {
    for (const std::int64_t n_states : {1, 16}) {
      Layer layer(n_channels, n_states, 17);
      for (const bool through_aten : {false, true}) {
        for (const bool in_place : {false, true}) {
          const StateRuns runs(counts, layer.n_floats(), 4, in_place);
          const Matrix y = layer.run(runs, through_aten);
          for (std::size_t i = 0; i < counts.size(); ++i) {
            ASSERT_NO_FATAL_FAILURE(layer.expect_exact(runs.runs()[i], y, runs.after(i))) << n_channels;
          }
        }
      }
    }
  }
}

// Tokens in pieces, with or without outputs, marks on the way, any number of threads: every state on the way too.
TEST(SelectiveScan, TheSameBitsHoweverCut) {
  Layer layer(100, 16, 200);
  const StateRuns whole({200}, layer.n_floats(), 64, false);
  const Matrix expected = layer.run(whole);
  for (const int n_threads : {1, 3}) {
    const Threads threads(n_threads);
    for (const std::int64_t piece : {1, 8, 64, 200}) {
      for (const bool outputs : {true, false}) {
        Workspace workspace(at::kCPU);
        const StateRuns runs({200}, layer.n_floats(), 200, true);
        const StateRun all = runs.runs()[0];
        Matrix y(200, 100);
        for (std::int64_t first = 0; first < 200; first += piece) {
          const std::int64_t n = std::min<std::int64_t>(piece, 200 - first);
          const StateMark mark{n, all.marks.back().states};
          const StateRun run{.before = all.before, .first_row = 0, .n_rows = n, .marks = {&mark, 1}};
          selective_scan(workspace, {&run, 1}, kOffset, layer.inputs(first, n), layer.weights,
                         outputs ? y.rows(first, n) : Rows{});
          if ((first + n) % 64 == 0 && piece <= 64) {
            EXPECT_EQ(scan_bits(runs.after(0)),
                      scan_bits(whole.at_mark(0, static_cast<std::size_t>((first + n) / 64 - 1))));
          }
        }
        if (outputs) {
          EXPECT_EQ(bits(y.values), bits(expected.values)) << piece;
        }
        EXPECT_EQ(scan_bits(runs.after(0)), scan_bits(whole.after(0))) << piece;
      }
    }
  }
}

TEST(SelectiveScan, ShapesThatDoNotFit) {
  Layer layer(20, 4, 3);
  const StateRuns runs({3}, layer.n_floats(), 3, true);
  Workspace workspace(at::kCPU);
  const auto refuse = [&](const ScanInputs& inputs, const Rows& y) {
    return testing::thrown(ErrorKind::kInvalidArgument,
                           [&] { selective_scan(workspace, runs.runs(), kOffset, inputs, layer.weights, y); });
  };
  Matrix y(3, 20), narrow(3, 19), other(2, 20);
  ScanInputs inputs = layer.inputs(0, 3);
  inputs.time_step = narrow.rows();
  EXPECT_THAT(refuse(inputs, y.rows()), ::testing::HasSubstr("time steps [3, 19]"));
  inputs = layer.inputs(0, 3);
  inputs.b_and_c = other.rows();
  refuse(inputs, y.rows());
  inputs = layer.inputs(0, 3);
  refuse(inputs, other.rows());
  inputs.gate_offset = 6;
  EXPECT_THAT(refuse(inputs, y.rows()), ::testing::HasSubstr("gate at 6"));
}

}  // namespace
}  // namespace mneme::ops
