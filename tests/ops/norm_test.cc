#include "mneme/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;
using testing::random_floats;
using testing::tensor_of;
using testing::Threads;
using testing::thrown;

constexpr float kEps = 1e-5f;

/// The mean of n squares, a square root, a division and a product in float32: (n / 2 + 4) half-ulps at most, and the
/// kernels sum in 16 lanes or more.
double relative_bound(std::int64_t n) { return (static_cast<double>(n) / 16 + 16) * 0x1p-24; }

void check_row(const float* x, const std::vector<float>& weight, const float* y) {
  double squares = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) squares += static_cast<double>(x[i]) * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(weight.size()) + static_cast<double>(kEps));
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const double exact = x[i] * scale * weight[i];
    ASSERT_NEAR(y[i], exact, std::abs(exact) * relative_bound(std::ssize(weight))) << i;
  }
}

TEST(RmsNorm, IsRightOnBothPaths) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 64, 100, 576}) {
    const std::vector<float> weight = random_floats(width, 1);
    Matrix x = Matrix::random(9, width, 2, 3.0f);
    for (const bool through_aten : {false, true}) {
      Workspace workspace(at::kCPU);
      workspace.set_through_aten(through_aten);
      Matrix y(9, width);
      rms_norm(workspace, x.rows(), tensor_of(weight), kEps, y.rows());
      for (int i = 0; i < 9; ++i) ASSERT_NO_FATAL_FAILURE(check_row(x.row(i), weight, y.row(i))) << width;
    }
  }
}

TEST(LayerNorm, IsRightOnBothPathsAndMayWriteOverItsInput) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 64, 100, 576}) {
    const std::vector<float> weight = random_floats(width, 1), bias = random_floats(width, 3);
    for (const bool through_aten : {false, true}) {
      Workspace workspace(at::kCPU);
      workspace.set_through_aten(through_aten);
      const Matrix x = Matrix::random(9, width, 2, 3.0f);
      Matrix y = x;
      layer_norm(workspace, y.rows(), tensor_of(weight), tensor_of(bias), kEps, y.rows());
      for (int i = 0; i < 9; ++i) {
        double mean = 0, squares = 0;
        for (std::int64_t j = 0; j < width; ++j) mean += x.row(i)[j] / static_cast<double>(width);
        for (std::int64_t j = 0; j < width; ++j) squares += (x.row(i)[j] - mean) * (x.row(i)[j] - mean);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(kEps));
        for (std::int64_t j = 0; j < width; ++j) {
          const auto k = static_cast<std::size_t>(j);
          const double exact = (x.row(i)[j] - mean) * scale * weight[k] + bias[k];
          // The mean's rounding is magnified by 1 / sqrt(eps) where all numbers are alike.
          ASSERT_NEAR(y.row(i)[j], exact, 2e-5 * (1 + std::abs(exact))) << width;
        }
      }
    }
  }
}

TEST(RmsNorm, MayWriteOverItsInput) {
  Workspace workspace(at::kCPU);
  for (const bool through_aten : {false, true}) {
    workspace.set_through_aten(through_aten);
    Matrix x = Matrix::random(3, 70, 3), y(3, 70);
    const at::Tensor weight = tensor_of(random_floats(70, 4));
    rms_norm(workspace, x.rows(), weight, kEps, y.rows());
    rms_norm(workspace, x.rows(), weight, kEps, x.rows());
    EXPECT_EQ(bits(x.values), bits(y.values));
  }
}

TEST(RmsNorm, ARowsBitsDependOnNothingElse) {
  const at::Tensor weight = tensor_of(random_floats(96, 5));
  Matrix x = Matrix::random(1000, 96, 6);
  std::vector<std::uint32_t> expected;
  for (const int threads : {1, 4}) {
    const Threads pool(threads);
    Workspace workspace(at::kCPU);
    Matrix all(1000, 96), one(1, 96);
    rms_norm(workspace, x.rows(), weight, kEps, all.rows());
    if (expected.empty()) expected = bits(all.values);
    EXPECT_EQ(bits(all.values), expected);
    rms_norm(workspace, x.rows(777, 1), weight, kEps, one.rows());
    EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(), all.row(777)));
  }
}

TEST(RmsNorm, ZerosStayZeros) {
  Workspace workspace(at::kCPU);
  Matrix x(1, 32);
  fill_zero(workspace, x.rows());
  rms_norm(workspace, x.rows(), at::ones({32}), kEps, x.rows());
  for (const float value : x.values) EXPECT_EQ(value, 0.0f);
}

TEST(RmsNormHeads, NormalizesHeadsAndNothingBesides) {
  const std::vector<float> weight = random_floats(24, 7);
  for (const bool through_aten : {false, true}) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    const Matrix before = Matrix::random(5, 100, 8);
    Matrix x = before;
    rms_norm_heads(workspace, tensor_of(weight), kEps, x.rows(), 10, 3);
    for (int i = 0; i < 5; ++i) {
      for (int h = 0; h < 3; ++h)
        ASSERT_NO_FATAL_FAILURE(check_row(before.row(i) + 10 + 24 * h, weight, x.row(i) + 10 + 24 * h));
      EXPECT_TRUE(std::equal(x.row(i), x.row(i) + 10, before.row(i)));
      EXPECT_TRUE(std::equal(x.row(i) + 82, x.row(i) + 100, before.row(i) + 82));
    }
  }
}

TEST(RmsNorm, RefusesOtherShapes) {
  Workspace workspace(at::kCPU);
  Matrix x(2, 8), y(2, 9);
  thrown(ErrorKind::kInvalidArgument, [&] { rms_norm(workspace, x.rows(), at::ones({8}), kEps, y.rows()); });
  thrown(ErrorKind::kInvalidArgument, [&] { rms_norm(workspace, x.rows(), at::ones({7}), kEps, x.rows()); });
  thrown(ErrorKind::kInvalidArgument, [&] { rms_norm_heads(workspace, at::ones({4}), kEps, x.rows(), 1, 2); });
}

}  // namespace
}  // namespace mneme::ops
