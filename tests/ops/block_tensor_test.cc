#include "mneme/ops/block_tensor.h"

#include <gtest/gtest.h>

#include "mneme/ops/linear.h"
#include "tests/support/matrix.h"

namespace mneme::ops {
namespace {

using kernels::BlockLayout;
using kernels::kBlockTokens;
using testing::kDTypes;
using testing::Matrix;
using testing::rounded;

std::vector<BlockLayout> layouts() {
  std::vector<BlockLayout> all;
  for (const DType format : kDTypes) {
    for (const auto& [heads, key_dim, value_dim] :
         {std::tuple{1, 1, 1}, {2, 16, 16}, {3, 33, 17}, {1, 64, 128}, {2, 96, 96}, {2, 7, 16}}) {
      all.push_back({.format = format, .n_heads = heads, .key_dim = key_dim, .value_dim = value_dim});
    }
  }
  return all;
}

std::string name_of_layout(const BlockLayout& l) {
  return fmt::format("{} {} heads of {} and {}", name_of(l.format), l.n_heads, l.key_dim, l.value_dim);
}

/// Tokens [first, first + n) of a block hold rows [first, first + n) of keys and values.
void expect_tokens(const BlockLayout& layout, const std::byte* block, std::int64_t first, std::int64_t n,
                   const Matrix& keys, std::int64_t key_offset, const Matrix& values, std::int64_t value_offset) {
  const auto [k, v] = load_tokens(layout, block, first, n, at::kCPU);
  ASSERT_EQ(k.sizes(), at::IntArrayRef({layout.n_heads, n, layout.key_dim}));
  ASSERT_EQ(v.sizes(), at::IntArrayRef({layout.n_heads, n, layout.value_dim}));
  ASSERT_EQ(k.scalar_type(), scalar_type(layout.format));
  const at::Tensor key_floats = k.to(at::kFloat), value_floats = v.to(at::kFloat);
  for (std::int64_t h = 0; h < layout.n_heads; ++h) {
    for (std::int64_t t = 0; t < n; ++t) {
      for (std::int64_t d = 0; d < layout.key_dim; ++d) {
        ASSERT_EQ(key_floats[h][t][d].item<float>(),
                  rounded(layout.format, keys.row(first + t)[key_offset + h * layout.key_dim + d]));
      }
      for (std::int64_t d = 0; d < layout.value_dim; ++d) {
        ASSERT_EQ(value_floats[h][t][d].item<float>(),
                  rounded(layout.format, values.row(first + t)[value_offset + h * layout.value_dim + d]));
      }
    }
  }
}

TEST(BlockTensor, WhatIsStoredComesBackOnBothPaths) {
  for (const BlockLayout& layout : layouts()) {
    SCOPED_TRACE(name_of_layout(layout));
    const std::int64_t key_width = layout.n_heads * layout.key_dim, value_width = layout.n_heads * layout.value_dim;
    Matrix keys = Matrix::random(kBlockTokens, key_width + 5, 1),
           values = Matrix::random(kBlockTokens, value_width + 3, 2);
    for (const bool through_aten : {false, true}) {
      Workspace workspace(at::kCPU);
      workspace.set_through_aten(through_aten);
      const DeviceBuffer block(layout.block_bytes(), at::kCPU);
      for (const auto& [first, n] : {std::pair{0, 1}, {1, 14}, {15, 2}, {17, 47}}) {
        store_tokens(workspace, layout, block.data(), first, n, keys.rows(), 5, values.rows(), 3, first);
      }
      ASSERT_NO_FATAL_FAILURE(expect_tokens(layout, block.data(), 0, 64, keys, 5, values, 3));
      ASSERT_NO_FATAL_FAILURE(expect_tokens(layout, block.data(), 13, 7, keys, 5, values, 3));
    }
  }
}

TEST(BlockTensor, BothPathsWriteTheSameBytes) {
  for (const BlockLayout& layout : layouts()) {
    Matrix keys = Matrix::random(20, layout.n_heads * layout.key_dim, 3),
           values = Matrix::random(20, layout.n_heads * layout.value_dim, 4);
    Workspace by_kernels(at::kCPU), by_aten(at::kCPU);
    by_aten.set_through_aten(true);
    const DeviceBuffer a(layout.block_bytes(), at::kCPU), b(layout.block_bytes(), at::kCPU);
    for (auto* pair : {&by_kernels, &by_aten}) {
      store_tokens(*pair, layout, pair == &by_kernels ? a.data() : b.data(), 30, 20, keys.rows(), 0, values.rows(), 0,
                   0);
    }
    EXPECT_EQ(std::vector(a.data(), a.data() + a.n_bytes()), std::vector(b.data(), b.data() + b.n_bytes()))
        << name_of_layout(layout);
  }
}

// Small sizes once came back as views of the block, which changed when it did.
TEST(BlockTensor, LoadedTokensAreCopies) {
  for (const BlockLayout& layout : layouts()) {
    Workspace workspace(at::kCPU);
    Matrix keys = Matrix::random(4, layout.n_heads * layout.key_dim, 5),
           values = Matrix::random(4, layout.n_heads * layout.value_dim, 6);
    const DeviceBuffer block(layout.block_bytes(), at::kCPU);
    store_tokens(workspace, layout, block.data(), 0, 4, keys.rows(), 0, values.rows(), 0, 0);
    const auto [k, v] = load_tokens(layout, block.data(), 0, 4, at::kCPU);
    const at::Tensor k_then = k.clone(), v_then = v.clone();
    std::fill_n(block.data(), block.n_bytes(), std::byte{0});
    EXPECT_TRUE(at::equal(k, k_then) && at::equal(v, v_then)) << name_of_layout(layout);
  }
}

// 80 layers of 32,768 tokens, 8 heads of 128: more than 32 bits count, and more than they count of elements.
TEST(BlockTensor, SizesAre64Bits) {
  constexpr BlockLayout layout{.format = DType::kFloat32, .n_heads = 8, .key_dim = 128, .value_dim = 128};
  static_assert(layout.block_bytes() == std::int64_t{2} * 64 * 8 * 128 * 4);
  static_assert(80 * (32768 / kBlockTokens) * layout.block_bytes() == std::int64_t{21'474'836'480});
  constexpr BlockLayout half{.format = DType::kBFloat16, .n_heads = 8, .key_dim = 128, .value_dim = 128};
  static_assert(80 * (32768 / kBlockTokens) * half.block_bytes() == std::int64_t{10'737'418'240});
}

TEST(PanelView, UnpacksAMatrix) {
  for (const DType format : kDTypes) {
    const std::int64_t inner = 37;
    Matrix rows = Matrix::random(16, inner, 7);
    std::vector<std::byte> panel(static_cast<std::size_t>(kernels::panel_bytes(format, inner)));
    kernels::pack_panel(format, rows.values.data(), 16, inner, panel.data());
    const at::Tensor matrix = unpacked(panel_view(format, panel.data(), 1, 0, 1, inner, at::kCPU))[0];
    ASSERT_EQ(matrix.sizes(), at::IntArrayRef({16, kernels::padded_inner(format, inner)}));
    EXPECT_TRUE(at::equal(matrix.narrow(1, 0, inner), rows.tensor().to(scalar_type(format))));
    EXPECT_TRUE(matrix.narrow(1, inner, matrix.size(1) - inner).eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace mneme::ops
