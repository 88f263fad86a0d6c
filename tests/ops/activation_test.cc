#include "mneme/ops/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;
using testing::Threads;
using testing::thrown;

double exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGelu: return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

constexpr Activation kAll[] = {Activation::kRelu, Activation::kSilu, Activation::kGeluTanh, Activation::kGelu};

TEST(Activation, NamesOfConfigJson) {
  for (const char* name : {"silu", "swish"}) EXPECT_EQ(activation_of(name), Activation::kSilu);
  for (const char* name : {"gelu_pytorch_tanh", "gelu_new"}) EXPECT_EQ(activation_of(name), Activation::kGeluTanh);
  EXPECT_EQ(activation_of("gelu"), Activation::kGelu);
  EXPECT_EQ(activation_of("relu"), Activation::kRelu);
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [] { activation_of("relu2"); }), ::testing::HasSubstr("relu2"));
}

TEST(Activation, WithoutAGateIsRightOnBothPaths) {
  for (const Activation activation : kAll) {
    const Matrix x = Matrix::random(4, 37, 1, 3.0f);
    for (const bool through_aten : {false, true}) {
      Workspace workspace(at::kCPU);
      workspace.set_through_aten(through_aten);
      Matrix y = x;
      activate(workspace, activation, y.rows());
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        ASSERT_NEAR(y.values[i], exact(activation, x.values[i]), 8 * 0x1p-24 * std::abs(x.values[i]))
            << static_cast<int>(activation) << " of " << x.values[i] << " aten " << through_aten;
      }
    }
  }
}

// Absolute, since gelu is a difference of nearly equal numbers where it is small: a few float32 roundings of x * up.
TEST(Activation, GatedIsRightOnBothPaths) {
  for (const Activation activation : kAll) {
    for (const std::int64_t width : {1, 15, 16, 17, 100, 1536}) {
      Matrix both = Matrix::random(4, 2 * width, 1, 3.0f);
      for (const bool through_aten : {false, true}) {
        Workspace workspace(at::kCPU);
        workspace.set_through_aten(through_aten);
        Matrix y(4, width);
        gated(workspace, activation, both.rows(), y.rows());
        for (int i = 0; i < 4; ++i) {
          for (std::int64_t j = 0; j < width; ++j) {
            const double gate = both.row(i)[j], up = both.row(i)[width + j];
            ASSERT_NEAR(y.row(i)[j], exact(activation, gate) * up, 8 * 0x1p-24 * std::abs(gate * up) + 1e-30)
                << static_cast<int>(activation) << " gate " << gate << " up " << up << " aten " << through_aten;
          }
        }
      }
    }
  }
}

TEST(Activation, ExtremesStayFinite) {
  for (const Activation activation : kAll) {
    Workspace workspace(at::kCPU);
    Matrix both(1, 2 * 4), y(1, 4);
    both.values = {-1e30f, -100.0f, 100.0f, 0.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    gated(workspace, activation, both.rows(), y.rows());
    EXPECT_EQ(std::abs(y.values[0]), 0.0f);
    EXPECT_NEAR(y.values[1], 0.0f, 1e-30);
    EXPECT_EQ(y.values[2], 100.0f);
    EXPECT_EQ(y.values[3], 0.0f);
  }
}

TEST(Activation, AddIsTheResidualStream) {
  for (const bool through_aten : {false, true}) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix x = Matrix::random(7, 33, 2), y = Matrix::random(7, 33, 3), sum(7, 33);
    for (std::size_t i = 0; i < x.values.size(); ++i) sum.values[i] = y.values[i] + x.values[i];
    add(workspace, x.rows(), y.rows());
    EXPECT_EQ(bits(y.values), bits(sum.values));
  }
}

TEST(Activation, BitsDoNotDependOnThreadsOrRows) {
  Matrix both = Matrix::random(300, 2 * 50, 4);
  std::vector<std::uint32_t> expected;
  for (const int threads : {1, 4}) {
    const Threads pool(threads);
    Workspace workspace(at::kCPU);
    Matrix y(300, 50), one(1, 50);
    gated(workspace, Activation::kSilu, both.rows(), y.rows());
    if (expected.empty()) expected = bits(y.values);
    EXPECT_EQ(bits(y.values), expected);
    gated(workspace, Activation::kSilu, both.rows(299, 1), one.rows());
    EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(), y.row(299)));
  }
}

TEST(Activation, RefusesOtherShapes) {
  Workspace workspace(at::kCPU);
  Matrix a(2, 8), b(2, 5), c(3, 4);
  thrown(ErrorKind::kInvalidArgument, [&] { gated(workspace, Activation::kSilu, a.rows(), b.rows()); });
  thrown(ErrorKind::kInvalidArgument, [&] { gated(workspace, Activation::kSilu, a.rows(), c.rows()); });
  thrown(ErrorKind::kInvalidArgument, [&] { add(workspace, a.rows(), b.rows()); });
}

}  // namespace
}  // namespace mneme::ops
