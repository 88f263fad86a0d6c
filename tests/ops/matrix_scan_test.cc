#include "mneme/ops/matrix_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

/// Keys, queries and values of some tokens side by side, and gates between 0 and 1.
struct Tokens {
  MatrixScanOptions options;
  Matrix x, gates;

  Tokens(const MatrixScanOptions& o, std::int64_t n)
      : options(o),
        x(Matrix::random(n, 3 + 2 * o.n_key_heads * o.n_keys + o.n_heads * o.head_dim, 1, 0.4f)),
        gates(Matrix::random(n, 2 * o.n_heads, 2)) {
    for (float& g : gates.values) g = 1 / (1 + std::exp(-g));
  }

  MatrixScanInputs inputs() {
    const std::int64_t keys = options.n_key_heads * options.n_keys;
    return {.x = x.rows(), .k_offset = 3, .q_offset = 3 + keys, .v_offset = 3 + 2 * keys, .gates = gates.rows()};
  }

  Matrix run(const StateRuns& runs, bool through_aten = false) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix y(x.n, options.n_heads * options.head_dim);
    matrix_scan(workspace, runs.runs(), kOffset, inputs(), options, y.rows());
    return y;
  }
};

std::vector<MatrixScanOptions> all_options() {
  const at::Tensor skip = tensor_of(random_floats(6, 3));
  return {{.n_heads = 6, .n_key_heads = 2, .n_keys = 8, .head_dim = 20, .skip = skip},
          {.n_heads = 6, .n_key_heads = 6, .n_keys = 5, .head_dim = 16, .delta = true},
          {.n_heads = 4, .n_key_heads = 1, .n_keys = 16, .head_dim = 3}};
}

TEST(MatrixScan, BothPathsAgree) {
  for (const MatrixScanOptions& options : all_options()) {
    Tokens tokens(options, 30);
    const std::int64_t floats = kOffset + matrix_state_floats(options);
    const StateRuns kernels({17, 13}, floats, 8, false), aten({17, 13}, floats, 8, false);
    Matrix y = tokens.run(kernels), z = tokens.run(aten, /*through_aten=*/true);
    EXPECT_LE((y.tensor() - z.tensor()).abs().max().item<float>(), 1e-4f);
    for (std::size_t i : {0u, 1u}) {
      const std::vector<float> a = kernels.after(i), b = aten.after(i);
      for (std::size_t k = kOffset; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4f) << k;
    }
  }
}

TEST(MatrixScan, CutsBatchMatesAndThreadsChangeNoBit) {
  for (const MatrixScanOptions& options : all_options()) {
    Tokens tokens(options, 40);
    const std::int64_t floats = kOffset + matrix_state_floats(options);
    const StateRuns whole({25, 15}, floats, 100, true);
    const Matrix expected = tokens.run(whole);
    for (const int n : {1, 3}) {
      const Threads threads(n);
      const StateRuns cut({25, 15}, floats, 4, n == 1);
      EXPECT_EQ(bits(tokens.run(cut).values), bits(expected.values));
      for (std::size_t i : {0u, 1u}) {
        const std::vector<float> a = whole.after(i), b = cut.after(i);
        EXPECT_EQ(bits({a.begin() + kOffset, a.end()}), bits({b.begin() + kOffset, b.end()}));
      }
    }
  }
}

TEST(MatrixScan, GatesAreTheirFormulas) {
  const GateWeights weights{
      .bias = tensor_of({0.5f, -1.0f, 2.0f}), .a = tensor_of({-0.1f, -1.0f, -3.0f}), .least = 0.3f, .most = 1.5f};
  Matrix raw = Matrix::random(7, 9, 4);
  for (const bool through_aten : {false, true}) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix steps(7, 6), delta(7, 6);
    time_step_gates(workspace, raw.rows(), 2, weights, steps.rows());
    delta_gates(workspace, raw.rows(), 2, weights, delta.rows());
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t h = 0; h < 3; ++h) {
        const double bias = weights.bias[h].item<double>(), a = weights.a[h].item<double>();
        const auto softplus = [&](std::int64_t column) { return std::log1p(std::exp(raw.row(i)[column] + bias)); };
        const double dt = std::clamp(softplus(2 + h), 0.3, 1.5);
        EXPECT_NEAR(steps.row(i)[2 * h], std::exp(dt * a), 1e-6);
        EXPECT_NEAR(steps.row(i)[2 * h + 1], dt, 1e-6);
        EXPECT_NEAR(delta.row(i)[2 * h], std::exp(softplus(5 + h) * a), 1e-6);
        EXPECT_NEAR(delta.row(i)[2 * h + 1], 1 / (1 + std::exp(-raw.row(i)[2 + h])), 1e-6);
      }
    }
  }
}

TEST(MatrixScan, RefusesWhatDoesNotFit) {
  Tokens tokens(all_options()[0], 4);
  const StateRuns runs({4}, kOffset + matrix_state_floats(tokens.options), 100, true);
  MatrixScanInputs inputs = tokens.inputs();
  inputs.v_offset += 1;
  Workspace workspace(at::kCPU);
  Matrix y(4, 120);
  testing::thrown(ErrorKind::kInvalidArgument,
                  [&] { matrix_scan(workspace, runs.runs(), kOffset, inputs, tokens.options, y.rows()); });
}

}  // namespace
}  // namespace mneme::ops
