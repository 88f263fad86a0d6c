#include "mneme/ops/packed_weights.h"

#include <gtest/gtest.h>

#include "mneme/ops/grouped_linear.h"
#include "mneme/ops/linear.h"
#include "tests/support/coded_weights.h"
#include "tests/support/matrix.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::CodedMatrix;
using testing::kCodedFormats;
using testing::Matrix;
using testing::Threads;

constexpr std::int64_t kIn = 512;

CodedRows rows_of(const CodedMatrix& matrix) {
  return {matrix.format, matrix.rows, [&matrix](std::int64_t first, std::int64_t n, std::byte* out) {
            std::copy_n(matrix.blocks.data() + first * matrix.row_bytes, n * matrix.row_bytes, out);
          }};
}

WeightRows only_coded(std::vector<CodedRows> coded) {
  WeightRows rows{0, kIn, [](std::int64_t, std::int64_t, float*) { FAIL() << "integers were asked for"; }};
  for (const CodedRows& part : coded) rows.n += part.n;
  rows.coded = std::move(coded);
  return rows;
}

Matrix through(const Linear& linear, Matrix& x, bool through_aten = false) {
  Workspace workspace(at::kCPU);
  workspace.set_through_aten(through_aten);
  Matrix y(x.n, linear.out_features());
  linear.forward(workspace, x.rows(), y.rows());
  return y;
}

/// But for what fitting steps costs where the scales of a run differ up to sixteen times (coded_panel.h). With another
/// group's or another output's weights the error would be as large as the weights.
TEST(PackedWeights, IntegersAreNearlyWhatTheFileHolds) {
  for (const WeightFormat format : kCodedFormats) {
    const CodedMatrix matrix(format, 3 * 21, kIn);
    const PackedWeights packed(3, kIn, rows_of(matrix));
    for (std::int64_t g = 0; g < 3; ++g) {
      const at::Tensor want = testing::tensor_of(matrix.numbers).view({3, 21, kIn})[g];
      const auto error = (packed.tensor(g) - want).norm() / want.norm();
      EXPECT_LT(error.item<float>(), format == WeightFormat::kQ6_K ? 1e-9f : 0.02f) << name_of(format);
    }
  }
}

/// Attention's queries, keys and values may come in two formats: their outputs lie side by side all the same.
TEST(LinearOfIntegers, JoinsFormatsAndAddsABias) {
  const CodedMatrix first(WeightFormat::kQ4_K, 40, kIn, 1), second(WeightFormat::kQ6_K, 24, kIn, 2);
  const at::Tensor bias = testing::tensor_of(testing::random_floats(64, 3));
  const Linear both(only_coded({rows_of(first), rows_of(second)}), DType::kBFloat16, at::kCPU, bias);
  const Linear a(only_coded({rows_of(first)}), DType::kBFloat16, at::kCPU),
      b(only_coded({rows_of(second)}), DType::kBFloat16, at::kCPU);
  Matrix x = Matrix::random(5, kIn, 4);
  const Matrix got = through(both, x), left = through(a, x), right = through(b, x);
  for (std::int64_t m = 0; m < 5; ++m) {
    for (std::int64_t n = 0; n < 64; ++n) {
      const float product = n < 40 ? left.row(m)[n] : right.row(m)[n - 40];
      ASSERT_EQ(got.row(m)[n], product + bias[n].item<float>()) << m << " " << n;
    }
  }
  EXPECT_EQ(both.n_bytes(), a.n_bytes() + b.n_bytes());
}

TEST(LinearOfIntegers, SameBitsForAnyRowsAndThreads) {
  for (const WeightFormat format : kCodedFormats) {
    const CodedMatrix matrix(format, 333, kIn);
    const Linear linear(only_coded({rows_of(matrix)}), DType::kBFloat16, at::kCPU);
    Matrix x = Matrix::random(601, kIn, 4);
    const Matrix want = through(linear, x);
    for (const int n_threads : {1, 3}) {
      const Threads threads(n_threads);
      ASSERT_EQ(bits(through(linear, x).values), bits(want.values)) << name_of(format);
      Matrix one(1, kIn);
      std::copy_n(x.row(77), kIn, one.row(0));
      const Matrix alone = through(linear, one);
      ASSERT_TRUE(std::equal(alone.values.begin(), alone.values.end(), want.row(77))) << name_of(format);
    }
  }
}

/// Elsewhere than on the CPU's kernels the numbers that integers stand for are used.
TEST(LinearOfIntegers, ThroughAtenIsClose) {
  for (const WeightFormat format : kCodedFormats) {
    const CodedMatrix matrix(format, 48, kIn);
    const Linear linear(only_coded({rows_of(matrix)}), DType::kBFloat16, at::kCPU);
    Matrix x = Matrix::random(9, kIn, 4);
    const at::Tensor want = at::linear(x.tensor(), testing::tensor_of(matrix.numbers).view({48, kIn}));
    Matrix by_aten = through(linear, x, true), by_kernels = through(linear, x);
    const at::Tensor held = PackedWeights(1, kIn, rows_of(matrix)).tensor(0);
    EXPECT_TRUE(at::allclose(by_aten.tensor(), at::linear(x.tensor(), held), 1e-4, 1e-3)) << name_of(format);
    const double error = (by_kernels.tensor() - want).norm().item<double>() / want.norm().item<double>();
    EXPECT_LT(error, 0.012) << name_of(format);
  }
}

TEST(GroupedLinearOfIntegers, IsALinearLayerForEachGroup) {
  const CodedMatrix matrix(WeightFormat::kQ4_1, 3 * 32, kIn);
  const GroupedLinear grouped(3, only_coded({rows_of(matrix)}), DType::kBFloat16, at::kCPU);
  Matrix x = Matrix::random(7, kIn, 4), y(7, 32);
  const std::int64_t starts[] = {0, 4, 4, 7};
  Workspace workspace(at::kCPU);
  grouped.forward(workspace, x.rows(), starts, y.rows());
  for (const std::int64_t g : {0, 2}) {
    CodedMatrix one = matrix;
    one.rows = 32;
    one.blocks.erase(one.blocks.begin(), one.blocks.begin() + g * 32 * matrix.row_bytes);
    const Linear linear(only_coded({rows_of(one)}), DType::kBFloat16, at::kCPU);
    const Matrix all = through(linear, x);
    for (std::int64_t m = starts[g]; m < starts[g + 1]; ++m) {
      ASSERT_TRUE(std::equal(y.row(m), y.row(m) + 32, all.row(m))) << g << " " << m;
    }
  }
}

}  // namespace
}  // namespace mneme::ops
