#include "mneme/ops/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/support/matrix.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;

/// Entry of Sylvester's matrix: the parity of the bits that both indices have.
double sylvester(std::int64_t i, std::int64_t j) {
  return std::popcount(static_cast<std::uint64_t>(i & j)) % 2 ? -1.0 : 1.0;
}

TEST(Hadamard, IsSylvestersMatrixOnEachRun) {
  for (const std::int64_t dim : {1, 3, 16, 24, 64, 80, 96, 128}) {
    const std::int64_t run = dim & -dim;
    Workspace workspace(at::kCPU);
    const Matrix x = Matrix::random(5, 2 + 3 * dim, 1);
    Matrix copy = x;
    const Workspace::Scope scope(workspace);
    const Rows y = rotated(workspace, copy.rows(), 2, 3, dim);
    for (std::int64_t n = 0; n < 5; ++n) {
      for (std::int64_t i = 0; i < 3 * dim; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < run; ++j) sum += sylvester(i % run, j) * x.row(n)[2 + i / run * run + j];
        ASSERT_NEAR(y.row(n)[i], sum / std::sqrt(static_cast<double>(run)), 1e-5) << dim;
      }
    }
    EXPECT_EQ(bits(copy.values), bits(x.values));  // the source stays
  }
}

TEST(Hadamard, UndoesItself) {
  Workspace workspace(at::kCPU);
  const Matrix x = Matrix::random(40, 2 * 64, 2);
  Matrix y = x;
  rotate_heads(workspace, y.rows(), 2, 64);
  rotate_heads(workspace, y.rows(), 2, 64);
  for (std::size_t i = 0; i < x.values.size(); ++i) ASSERT_NEAR(y.values[i], x.values[i], 1e-5);
}

TEST(Hadamard, ThroughAtenItIsTheSame) {
  for (const std::int64_t dim : {16, 24, 96}) {
    Workspace ours(at::kCPU), aten(at::kCPU);
    aten.set_through_aten(true);
    Matrix x = Matrix::random(7, 2 * dim, 3), y = x;
    rotate_heads(ours, x.rows(), 2, dim);
    rotate_heads(aten, y.rows(), 2, dim);
    for (std::size_t i = 0; i < x.values.size(); ++i) ASSERT_NEAR(y.values[i], x.values[i], 1e-5);
  }
}

TEST(Hadamard, TensorsRoundOnce) {
  const at::Tensor x = at::randn({2, 3, 5, 64}).to(at::kBFloat16);
  const at::Tensor y = rotated(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_TRUE(at::equal(rotated(x.to(at::kFloat)).to(at::kBFloat16), y));
  EXPECT_TRUE(at::allclose(rotated(y).to(at::kFloat), x.to(at::kFloat), 2e-2, 2e-2));
}

}  // namespace
}  // namespace mneme::ops
