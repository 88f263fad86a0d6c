#include "mneme/cache/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/ops/linear.h"
#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::kDTypes;
using testing::Matrix;
using testing::thrown;

TEST(FloatCodec, SaysWhatItIs) {
  for (const DType dtype : kDTypes) {
    const auto codec = float_codec(dtype, 3, 64, 32);
    EXPECT_EQ(codec->name(), name_of(dtype));
    EXPECT_EQ(codec->layout(), (kernels::BlockLayout{.format = dtype, .n_heads = 3, .key_dim = 64, .value_dim = 32}));
    EXPECT_EQ(codec->block_bytes(), 64 * 3 * (64 + 32) * static_cast<std::int64_t>(size_of(dtype)));
  }
}

TEST(FloatCodec, LoadsWhatItStored) {
  for (const DType dtype : kDTypes) {
    const auto codec = float_codec(dtype, 2, 8, 24);
    ops::Workspace workspace(at::kCPU);
    const ops::DeviceBuffer block(codec->block_bytes(), at::kCPU);
    Matrix keys = Matrix::random(10, 4 + 16, 1), values = Matrix::random(10, 2 + 48, 2);
    codec->store(workspace, block.data(), 60, 4,
                 {.keys = keys.rows(), .key_offset = 4, .values = values.rows(), .value_offset = 2}, 5);
    const auto [k, v] = codec->load(block.data(), 60, 4, at::kCPU);
    const auto expected = [&](Matrix& m, std::int64_t offset, std::int64_t dim) {
      return m.tensor()
          .narrow(0, 5, 4)
          .narrow(1, offset, 2 * dim)
          .view({4, 2, dim})
          .transpose(0, 1)
          .to(ops::scalar_type(dtype));
    };
    EXPECT_TRUE(at::equal(k, expected(keys, 4, 8)));
    EXPECT_TRUE(at::equal(v, expected(values, 2, 24)));
    EXPECT_TRUE(codec->load(block.data(), 0, 60, at::kCPU).first.eq(0).all().item<bool>());
  }
}

TEST(FloatCodec, RefusesSizesThatCannotBe) {
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { float_codec(DType::kFloat32, 0, 64, 64); }),
              ::testing::HasSubstr("0 heads of 64 and 64"));
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 25, INT64_MAX}) {
    thrown(ErrorKind::kInvalidArgument, [&] { float_codec(DType::kFloat32, bad, 64, 64); });
    thrown(ErrorKind::kInvalidArgument, [&] { float_codec(DType::kFloat32, 1, bad, 64); });
    thrown(ErrorKind::kInvalidArgument, [&] { float_codec(DType::kFloat32, 1, 64, bad); });
  }
}

}  // namespace
}  // namespace mneme
