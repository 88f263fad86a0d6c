#include <gtest/gtest.h>

#include "mneme/kernels/kernels.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

TEST(PackPanel, FollowsTheLayoutsAndFillsUpWithZeros) {
  for (const std::int64_t n_rows : {1, 3, 15, 16}) {
    for (const std::int64_t inner : {1, 2, 31, 32, 33, 70}) {
      const std::vector<float> rows = testing::random_floats(n_rows * inner, 1);
      const auto at = [&](std::int64_t n, std::int64_t k) {
        return n < n_rows && k < inner ? rows[static_cast<std::size_t>(n * inner + k)] : 0.0f;
      };
      const std::int64_t padded = round_up(inner, 32);
      std::vector<float> wide(inner * 16 + 1, -1.0f);
      std::vector<std::uint16_t> half(inner * 16 + 1, 7), pairs(padded * 16 + 1, 7);
      pack_panel(DType::kFloat32, rows.data(), n_rows, inner, wide.data());
      pack_panel(DType::kFloat16, rows.data(), n_rows, inner, half.data());
      pack_panel(DType::kBFloat16, rows.data(), n_rows, inner, pairs.data());
      for (std::int64_t n = 0; n < 16; ++n) {
        for (std::int64_t k = 0; k < inner; ++k) {
          EXPECT_EQ(wide[k * 16 + n], at(n, k));
          EXPECT_EQ(half[k * 16 + n], to_float16(at(n, k)));
        }
        for (std::int64_t k = 0; k < padded; ++k) {
          EXPECT_EQ(pairs[(k / 2 * 16 + n) * 2 + k % 2], to_bfloat16(at(n, k))) << n << ' ' << k;
        }
      }
      EXPECT_EQ(wide.back(), -1.0f);
      EXPECT_EQ(half.back(), 7);
      EXPECT_EQ(pairs.back(), 7);
      EXPECT_EQ(panel_bytes(DType::kBFloat16, inner), padded * 32);
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
