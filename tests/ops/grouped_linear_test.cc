#include "mneme/ops/grouped_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::kDTypes;
using testing::Matrix;
using testing::Threads;

constexpr std::int64_t kGroups = 5, kOut = 150, kIn = 40;
const std::int64_t kStarts[] = {0, 3, 3, 4, 700, 720};  // one group has no row, one has more than a task takes

struct Layer {
  Matrix weights = Matrix::random(kGroups * kOut, kIn, 1);
  at::Tensor bias = testing::tensor_of(testing::random_floats(kGroups * kOut, 2)).view({kGroups, kOut});

  GroupedLinear grouped(DType dtype) const {
    return GroupedLinear(kGroups, {kGroups * kOut, kIn, reader(0)}, dtype, at::kCPU, bias);
  }
  Linear group(DType dtype, std::int64_t g) const {
    return Linear(kOut, kIn, dtype, at::kCPU, reader(g * kOut), bias[g]);
  }

  ReadRows reader(std::int64_t before) const {
    return [this, before](std::int64_t first, std::int64_t n, float* out) {
      std::copy_n(weights.row(before + first), n * kIn, out);
    };
  }
};

TEST(GroupedLinear, IsALinearLayerForEachGroupBitForBit) {
  const Layer layer;
  Matrix x = Matrix::random(720, kIn, 3);
  for (const DType dtype : kDTypes) {
    const GroupedLinear grouped = layer.grouped(dtype);
    for (const bool through_aten : {false, true}) {
      for (const int n : {1, 3}) {
        const Threads threads(n);
        Workspace workspace(at::kCPU);
        workspace.set_through_aten(through_aten);
        Matrix y(720, kOut);
        grouped.forward(workspace, x.rows(), kStarts, y.rows());
        for (std::int64_t g = 0; g < kGroups; ++g) {
          const std::int64_t first = kStarts[g], count = kStarts[g + 1] - first;
          if (count == 0) continue;
          Matrix expected(count, kOut);
          layer.group(dtype, g).forward(workspace, x.rows(first, count), expected.rows());
          const std::vector<float> got(y.row(first), y.row(first) + count * kOut);
          if (through_aten) {
            for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected.values[i], 1e-5);
          } else {
            ASSERT_EQ(bits(got), bits(expected.values)) << "group " << g;
          }
        }
      }
    }
  }
}

TEST(GroupedLinear, NothingGoesInNothingComesOut) {
  const Layer layer;
  Workspace workspace(at::kCPU);
  Matrix x(0, kIn), y(0, kOut);
  const std::int64_t starts[kGroups + 1] = {};
  layer.grouped(DType::kFloat32).forward(workspace, x.rows(), starts, y.rows());
}

TEST(GroupedLinear, RefusesWhatDoesNotFit) {
  const Layer layer;
  const GroupedLinear grouped = layer.grouped(DType::kFloat32);
  Workspace workspace(at::kCPU);
  Matrix x = Matrix::random(720, kIn, 3), y(720, kOut), narrow(720, kOut - 1);
  const auto refused = [&](std::span<const std::int64_t> starts, Matrix& out) {
    return testing::thrown(ErrorKind::kInvalidArgument,
                           [&] { grouped.forward(workspace, x.rows(), starts, out.rows()); });
  };
  EXPECT_THAT(refused(kStarts, narrow), ::testing::HasSubstr("[150, 40]"));
  refused(std::span(kStarts).first(5), y);
  const std::int64_t fewer[] = {0, 1, 2, 3, 4, 719};
  refused(fewer, y);
}

}  // namespace
}  // namespace mneme::ops
