#include "mneme/ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::kDTypes;
using testing::Matrix;
using testing::rounded;
using testing::Threads;
using testing::thrown;

struct Case {
  std::int64_t out, in;
  DType dtype;
  bool bias;
};

/// A layer, its weights in their dtype, and its bias.
struct Layer {
  Matrix weights;
  at::Tensor bias;
  Linear linear;

  explicit Layer(const Case& c) : weights(Matrix::random(c.out, c.in, 1)) {
    for (float& w : weights.values) w = rounded(c.dtype, w);
    if (c.bias) bias = testing::tensor_of(testing::random_floats(c.out, 2));
    linear = Linear(
        c.out, c.in, c.dtype, at::kCPU,
        [&](std::int64_t first, std::int64_t n, float* out) { std::copy_n(weights.row(first), n * c.in, out); }, bias);
  }

  Matrix operator()(Workspace& workspace, Matrix& x) const {
    Matrix y(x.n, linear.out_features());
    linear.forward(workspace, x.rows(), y.rows());
    return y;
  }
};

/// |y - exact| for sums of K rounded products is at most K u sum |x w| with u = 2^-24, and u |y| for the bias.
/// (Higham, Accuracy and Stability, 3.1.) On the ATen path x and the product are also rounded to the weights' dtype.
void check_against_double(Layer& layer, const Case& c, Matrix& x, const Matrix& y, bool through_aten) {
  Matrix rows = x;
  if (c.dtype == DType::kBFloat16) {
    for (float& value : rows.values) value = rounded(c.dtype, value);
  }
  const at::Tensor w = layer.weights.tensor().to(at::kDouble), v = rows.tensor().to(at::kDouble);
  at::Tensor exact = at::linear(v, w);
  at::Tensor bound = at::linear(v.abs(), w.abs()) * (static_cast<double>(c.in) * 0x1p-24);
  if (through_aten && c.dtype != DType::kFloat32) {
    const double unit = c.dtype == DType::kBFloat16 ? 0x1p-9 : 0x1p-11;
    bound = bound + (exact.abs() + (c.dtype == DType::kFloat16 ? at::linear(v.abs(), w.abs()) : exact.abs())) * unit;
  }
  if (c.bias) exact = exact + layer.bias.to(at::kDouble);
  bound = bound + exact.abs() * 0x1p-23 + 1e-30;
  const auto e = exact.accessor<double, 2>(), b = bound.accessor<double, 2>();
  for (std::int64_t i = 0; i < y.n; ++i) {
    for (std::int64_t j = 0; j < y.width; ++j) ASSERT_NEAR(y.row(i)[j], e[i][j], b[i][j]) << i << ' ' << j;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : kDTypes) {
    for (const auto& [out, in] : {std::pair{1, 1},
                                  {1, 64},
                                  {16, 32},
                                  {17, 33},
                                  {15, 31},
                                  {48, 64},
                                  {100, 7},
                                  {7, 200},
                                  {130, 96},
                                  {320, 576}}) {
      for (const bool bias : {false, true}) all.push_back({out, in, dtype, bias});
    }
  }
  return all;
}

TEST(Linear, IsRightForEveryDtypeAndSize) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message() << c.out << 'x' << c.in << ' ' << name_of(c.dtype) << " bias " << c.bias);
    Layer layer(c);
    Matrix x = Matrix::random(5, c.in, 3);
    for (const bool through_aten : {false, true}) {
      Workspace workspace(at::kCPU);
      workspace.set_through_aten(through_aten);
      ASSERT_NO_FATAL_FAILURE(check_against_double(layer, c, x, layer(workspace, x), through_aten));
    }
  }
}

// What makes a sequence's result independent of its batch mates and of prefill chunks.
TEST(Linear, ARowsBitsDependOnNothingElse) {
  Workspace workspace(at::kCPU);
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message() << c.out << 'x' << c.in << ' ' << name_of(c.dtype) << " bias " << c.bias);
    const Layer layer(c);
    Matrix x = Matrix::random(70, c.in, 4);
    const Matrix all = layer(workspace, x);
    for (const std::int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 64}) {
      Matrix part(n, c.out);
      layer.linear.forward(workspace, x.rows(70 - n, n), part.rows());
      ASSERT_EQ(bits(part.values),
                bits(std::vector<float>(all.values.end() - static_cast<std::ptrdiff_t>(n * c.out), all.values.end())))
          << n << " rows";
    }
  }
}

TEST(Linear, BitsDoNotDependOnThreads) {
  for (const DType dtype : kDTypes) {
    const Layer layer({330, 96, dtype, true});
    for (const std::int64_t n : {1, 40, 1100}) {  // 1100: more than one task of rows
      Matrix x = Matrix::random(n, 96, 5);
      std::vector<std::uint32_t> expected;
      for (const int threads : {1, 2, 4, 7}) {
        const Threads pool(threads);
        Workspace workspace(at::kCPU);
        const auto got = bits(layer(workspace, x).values);
        if (expected.empty()) expected = got;
        ASSERT_EQ(got, expected) << name_of(dtype) << ' ' << n << " rows, " << threads << " threads";
      }
    }
  }
}

TEST(Linear, NoRowsAreNoWork) {
  Workspace workspace(at::kCPU);
  const Layer layer({16, 8, DType::kBFloat16, true});
  Matrix none(0, 8);
  EXPECT_EQ(layer(workspace, none).values.size(), 0u);
}

TEST(Linear, CountsItsBytes) {
  EXPECT_EQ(Layer({32, 64, DType::kBFloat16, false}).linear.n_bytes(), 32 * 64 * 2);
  EXPECT_EQ(Layer({20, 64, DType::kFloat32, false}).linear.n_bytes(), 32 * 64 * 4);  // whole panels
}

TEST(Linear, ASteadyLoopAllocatesNothing) {
  Workspace workspace(at::kCPU);
  const Layer layer({64, 64, DType::kBFloat16, false});
  Matrix x = Matrix::random(8, 64, 6), y(8, 64);
  layer.linear.forward(workspace, x.rows(), y.rows());
  const std::int64_t before = workspace.n_allocations();
  for (int i = 0; i < 20; ++i) layer.linear.forward(workspace, x.rows(), y.rows());
  EXPECT_EQ(workspace.n_allocations(), before);
}

TEST(Linear, RefusesOtherShapes) {
  Workspace workspace(at::kCPU);
  const Layer layer({16, 8, DType::kFloat32, false});
  Matrix x(2, 9), y(2, 16), z(3, 16), right(2, 8);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { layer.linear.forward(workspace, x.rows(), y.rows()); }),
              ::testing::HasSubstr("x [2, 9] and y [2, 16] do not fit weights [16, 8]"));
  thrown(ErrorKind::kInvalidArgument, [&] { layer.linear.forward(workspace, right.rows(), z.rows()); });
}

TEST(DTypes, BothWays) {
  for (const DType dtype : kDTypes) EXPECT_EQ(dtype_of(scalar_type(dtype)), dtype);
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [] { dtype_of(at::kDouble); }), ::testing::HasSubstr("Double"));
}

}  // namespace
}  // namespace mneme::ops
