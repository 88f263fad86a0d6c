#include "mneme/ops/code_tensor.h"

#include <gtest/gtest.h>

#include "mneme/base/flush_denormals.h"
#include "mneme/ops/block_tensor.h"
#include "tests/kernels/coded_blocks.h"
#include "tests/support/matrix.h"

namespace mneme::ops {
namespace {

using kernels::BlockCodes;
using kernels::BlockLayout;
using kernels::TileCodes;

void expect_near(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  EXPECT_LE((actual.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>(), tolerance);
}

// One rounding more than a fused multiply-add: a last bit of numbers below 4.
TEST(CodeTensor, EveryTileDecodesAsByKernels) {
  for (const auto& [format, tolerance] :
       {std::pair{DType::kFloat32, 1e-6}, {DType::kBFloat16, 1.0 / 64}, {DType::kFloat16, 1.0 / 512}}) {
    for (const std::int64_t dim : {15, 20, 64}) {
      for (const TileCodes& tile : kernels::tiles_to_test(dim)) {
        SCOPED_TRACE(::testing::Message() << name_of(format) << ' ' << dim << ' ' << tile);
        const BlockCodes codes{.keys = tile,
                               .values = tile,
                               .raw = {.format = format, .n_heads = 2, .key_dim = dim, .value_dim = dim},
                               .sink_length = dim == 20 ? 3 : 0};
        for (const bool first : {false, true}) {
          const kernels::AlignedBytes block = kernels::random_block(codes, first, 1);
          const kernels::AlignedBytes raw = kernels::decoded(kernels::active(), codes, block, first);
          const auto [keys, values] = load_codes(codes, block.data(), first, at::kCPU);
          const auto [expected_keys, expected_values] = load_tokens(codes.raw, raw.data(), 0, 64, at::kCPU);
          ASSERT_NO_FATAL_FAILURE(expect_near(keys, expected_keys, tolerance));
          ASSERT_NO_FATAL_FAILURE(expect_near(values, expected_values, tolerance));
        }
      }
    }
  }
}

}  // namespace
}  // namespace mneme::ops
