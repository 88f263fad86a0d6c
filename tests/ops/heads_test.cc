#include "mneme/ops/heads.h"

#include <gtest/gtest.h>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::Matrix;

TEST(Heads, AreSplitAndJoinedOnBothPaths) {
  for (const bool through_aten : {false, true}) {
    Workspace workspace(at::kCPU);
    workspace.set_through_aten(through_aten);
    Matrix rows = Matrix::random(5, 40, 1), heads(15, 6), back = Matrix::random(5, 30, 2);
    const Matrix before = back;
    split_heads(workspace, rows.rows(), 3, 11, 3, heads.rows());
    join_heads(workspace, heads.rows(), 3, back.rows(), 1, 8);
    for (std::int64_t n = 0; n < 5; ++n) {
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t i = 0; i < 6; ++i) {
          EXPECT_EQ(heads.row(h * 5 + n)[i], rows.row(n)[3 + 11 * h + i]);
          EXPECT_EQ(back.row(n)[1 + 8 * h + i], rows.row(n)[3 + 11 * h + i]);
        }
        EXPECT_EQ(back.row(n)[8 * h], before.row(n)[8 * h]);  // what lies between stays
      }
    }
  }
}

TEST(Heads, RefuseWhatDoesNotFit) {
  Workspace workspace(at::kCPU);
  Matrix rows = Matrix::random(5, 40, 1), heads(15, 6);
  testing::thrown(ErrorKind::kInvalidArgument, [&] { split_heads(workspace, rows.rows(), 13, 11, 3, heads.rows()); });
  testing::thrown(ErrorKind::kInvalidArgument, [&] { split_heads(workspace, rows.rows(), 0, 5, 3, heads.rows()); });
  testing::thrown(ErrorKind::kInvalidArgument, [&] { join_heads(workspace, heads.rows(), 4, rows.rows(), 0, 6); });
}

}  // namespace
}  // namespace mneme::ops
