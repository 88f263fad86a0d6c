#include "mneme/ops/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;
using testing::Threads;
using testing::thrown;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One operation on x [5, 700] with another matrix [5, 1403] beside it, and what it does to a number of row i, column
/// j.
struct Operation {
  const char* name;
  std::function<void(Workspace&, const Rows& x, const Rows& other)> run;
  std::function<double(double x, const float* other, std::int64_t i, std::int64_t j)> exact;
};

const float kFactors[] = {0.5f, -1.0f, 2.0f, 3.0f, 0.25f};

const Operation kOperations[] = {
    {"scale", [](Workspace& w, const Rows& x, const Rows&) { scale(w, 1.7f, x); },
     [](double x, const float*, std::int64_t, std::int64_t) { return x * static_cast<double>(1.7f); }},
    {"scale_rows", [](Workspace& w, const Rows& x, const Rows&) { scale_rows(w, kFactors, 10, 500, x); },
     [](double x, const float*, std::int64_t i, std::int64_t j) { return j >= 10 && j < 510 ? x * kFactors[i] : x; }},
    {"scale_columns",
     [](Workspace& w, const Rows& x, const Rows&) { scale_columns(w, at::arange(700, at::kFloat), x); },
     [](double x, const float*, std::int64_t, std::int64_t j) { return x * static_cast<double>(j); }},
    {"multiply", [](Workspace& w, const Rows& x, const Rows& y) { multiply(w, y, 7, x); },
     [](double x, const float* y, std::int64_t, std::int64_t j) { return x * y[7 + j]; }},
    {"multiply_sigmoid", [](Workspace& w, const Rows& x, const Rows& y) { multiply_sigmoid(w, y, 7, x); },
     [](double x, const float* y, std::int64_t, std::int64_t j) { return x * sigmoid(y[7 + j]); }},
    {"multiply_silu", [](Workspace& w, const Rows& x, const Rows& y) { multiply_silu(w, y, 7, x); },
     [](double x, const float* y, std::int64_t, std::int64_t j) { return x * y[7 + j] * sigmoid(y[7 + j]); }},
    {"copy_columns", [](Workspace& w, const Rows& x, const Rows& y) { copy_columns(w, y, 7, x); },
     [](double, const float* y, std::int64_t, std::int64_t j) { return y[7 + j]; }},
    {"softcap", [](Workspace& w, const Rows& x, const Rows&) { softcap(w, 1.5f, x); },
     [](double x, const float*, std::int64_t, std::int64_t) { return 1.5 * std::tanh(x / 1.5); }},
};

TEST(Pointwise, IsRightOnBothPathsAndOnAnyThreads) {
  for (const Operation& operation : kOperations) {
    Matrix other = Matrix::random(5, 1403, 2);
    std::vector<std::uint32_t> expected;
    for (const bool through_aten : {false, true}) {
      for (const int n : {1, 3}) {
        const Threads threads(n);
        Workspace workspace(at::kCPU);
        workspace.set_through_aten(through_aten);
        const Matrix x = Matrix::random(5, 700, 1);
        Matrix y = x;
        operation.run(workspace, y.rows(), other.rows());
        for (std::int64_t i = 0; i < 5; ++i) {
          for (std::int64_t j = 0; j < 700; ++j) {
            const double exact = operation.exact(x.row(i)[j], other.row(i), i, j);
            ASSERT_NEAR(y.row(i)[j], exact, 1e-6 * std::abs(exact) + 1e-6) << operation.name;
          }
        }
        if (through_aten) continue;
        if (expected.empty()) expected = bits(y.values);
        EXPECT_EQ(bits(y.values), expected) << operation.name << " on " << n << " threads";
      }
    }
  }
}

TEST(Pointwise, GatesOfOneColumnScaleTheirRows) {
  Matrix gates = Matrix::random(4, 1, 3);
  for (const bool through_aten : {false, true}) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    const Matrix x = Matrix::random(4, 9, 4);
    Matrix y = x;
    scale_rows_by_sigmoid(workspace, gates.rows(), y.rows());
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      EXPECT_NEAR(y.values[i], x.values[i] * sigmoid(gates.values[i / 9]), 1e-6);
    }
  }
}

TEST(Pointwise, RowsAreSummedInTheirOrder) {
  Matrix x(4, 2);
  x.values = {1e8f, 1, -1e8f, 2, 1, 3, 5, 4};
  const std::int64_t places[] = {0, 1, 2, 2, 0, 1};
  Workspace workspace(at::kCPU);
  Matrix y(2, 2);
  sum_rows(workspace, x.rows(), places, y.rows());
  EXPECT_EQ(y.values, (std::vector<float>{1, 6, 0, 6}));  // (1e8 - 1e8) + 1, and (1 + 1e8) - 1e8
  workspace.set_through_aten(true);
  const std::int64_t small[] = {3, 2};
  sum_rows(workspace, x.rows(), small, y.rows());
  EXPECT_EQ(y.values, (std::vector<float>{5, 4, 1, 3}));
}

TEST(Pointwise, ClampedSwigluClampsBeforeItGates) {
  for (const bool through_aten : {false, true}) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix gate_up = Matrix::random(3, 40, 5, 8.0f), y(3, 20);
    clamped_swiglu(workspace, 1.702f, 7.0f, gate_up.rows(), y.rows());
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 20; ++j) {
        const double gate = std::min(gate_up.row(i)[j], 7.0f), up = std::clamp(gate_up.row(i)[20 + j], -7.0f, 7.0f);
        const double exact = (up + 1) * gate * sigmoid(static_cast<double>(1.702f) * gate);
        EXPECT_NEAR(y.row(i)[j], exact, 1e-5 * std::abs(exact) + 1e-6);
      }
    }
  }
}

TEST(Pointwise, RefusesWhatDoesNotFit) {
  Workspace workspace(at::kCPU);
  Matrix x = Matrix::random(3, 8, 1), y = Matrix::random(3, 9, 2), z = Matrix::random(2, 9, 3);
  const auto refused = [&](const std::function<void()>& run) { thrown(ErrorKind::kInvalidArgument, run); };
  refused([&] { multiply(workspace, y.rows(), 2, x.rows()); });
  refused([&] { multiply_silu(workspace, z.rows(), 0, x.rows()); });
  refused([&] { multiply_sigmoid(workspace, y.rows(), -1, x.rows()); });
  refused([&] { copy_columns(workspace, y.rows(), 2, x.rows()); });
  refused([&] { scale_rows(workspace, kFactors, 1, 8, x.rows()); });
  refused([&] { scale_columns(workspace, at::ones({7}), x.rows()); });
  refused([&] { scale_rows_by_sigmoid(workspace, y.rows(), x.rows()); });
  refused([&] { clamped_swiglu(workspace, 1, 1, y.rows(), x.rows()); });
  const std::int64_t places[] = {0, 1};
  refused([&] { sum_rows(workspace, x.rows(), places, x.rows()); });
}

}  // namespace
}  // namespace mneme::ops
