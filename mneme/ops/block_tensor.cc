#include "mneme/ops/block_tensor.h"

#include "mneme/ops/linear.h"

namespace mneme::ops {
namespace {

using kernels::BlockLayout;
using kernels::kBlockTokens;
using kernels::kPanel;

/// One kind of tile of all heads as a view [Hkv, panels, 16, inner / pair, pair] into the block: the outputs are the
/// first panel-and-lane axes, the inner dimension the last two. pair is 2 for bfloat16, else 1.
at::Tensor tile_view(const BlockLayout& layout, const std::byte* tile, std::int64_t n_panels, std::int64_t inner,
                     at::Device device) {
  const std::int64_t pair = layout.format == DType::kBFloat16 ? 2 : 1,
                     padded = kernels::padded_inner(layout.format, inner);
  const std::int64_t head = layout.head_bytes() / static_cast<std::int64_t>(size_of(layout.format));
  return at::from_blob(const_cast<std::byte*>(tile), {layout.n_heads, n_panels, kPanel, padded / pair, pair},
                       {head, padded * kPanel, pair, pair * kPanel, 1},
                       at::TensorOptions().dtype(scalar_type(layout.format)).device(device));
}

at::Tensor key_view(const BlockLayout& layout, const std::byte* block, at::Device device) {
  return tile_view(layout, block, kBlockTokens / kPanel, layout.key_dim, device);
}

at::Tensor value_view(const BlockLayout& layout, const std::byte* block, at::Device device) {
  return tile_view(layout, block + layout.key_tile_bytes(), kernels::round_up(layout.value_dim, kPanel) / kPanel,
                   kBlockTokens, device);
}

/// [Hkv, outputs, inner] copies of whole tiles, padding included.
at::Tensor flattened(const at::Tensor& view) {
  return view.reshape({view.size(0), view.size(1) * view.size(2), view.size(3) * view.size(4)});
}

void store_through_aten(const Workspace& workspace, const BlockLayout& layout, std::byte* block,
                        std::int64_t first_slot, const at::Tensor& keys, const at::Tensor& values) {
  const std::int64_t n = keys.size(1);
  const at::Tensor key_tile = key_view(layout, block, workspace.device()),
                   value_tile = value_view(layout, block, workspace.device());
  at::Tensor all_keys = flattened(key_tile), all_values = flattened(value_tile);
  all_keys.narrow(1, first_slot, n).narrow(2, 0, layout.key_dim).copy_(keys);
  all_values.narrow(2, first_slot, n).narrow(1, 0, layout.value_dim).copy_(values.transpose(1, 2));
  key_tile.copy_(all_keys.view(key_tile.sizes()));
  value_tile.copy_(all_values.view(value_tile.sizes()));
}

at::Tensor heads_of(const Workspace& workspace, const Rows& rows, std::int64_t offset, std::int64_t first_row,
                    std::int64_t n, std::int64_t n_heads, std::int64_t dim) {
  return as_tensor(workspace, rows)
      .narrow(0, first_row, n)
      .narrow(1, offset, n_heads * dim)
      .view({n, n_heads, dim})
      .transpose(0, 1);
}

}  // namespace

void store_tokens(Workspace& workspace, const BlockLayout& layout, std::byte* block, std::int64_t first_slot,
                  std::int64_t n, const Rows& keys, std::int64_t key_offset, const Rows& values,
                  std::int64_t value_offset, std::int64_t first_row) {
  if (!workspace.uses_kernels()) {
    return store_through_aten(
        workspace, layout, block, first_slot,
        heads_of(workspace, keys, key_offset, first_row, n, layout.n_heads, layout.key_dim),
        heads_of(workspace, values, value_offset, first_row, n, layout.n_heads, layout.value_dim));
  }
  const kernels::FormatKernels& format = kernels::active().of(layout.format);
  for (std::int64_t h = 0; h < layout.n_heads; ++h) {
    format.store_tokens(layout, block + h * layout.head_bytes(), first_slot, n,
                        keys.row(first_row) + key_offset + h * layout.key_dim, keys.width,
                        values.row(first_row) + value_offset + h * layout.value_dim, values.width);
  }
}

std::pair<at::Tensor, at::Tensor> load_tokens(const BlockLayout& layout, const std::byte* block,
                                              std::int64_t first_slot, std::int64_t n, at::Device device) {
  const at::Tensor keys = flattened(key_view(layout, block, device)),
                   values = flattened(value_view(layout, block, device));
  return {keys.narrow(1, first_slot, n).narrow(2, 0, layout.key_dim),
          values.narrow(2, first_slot, n).narrow(1, 0, layout.value_dim).transpose(1, 2)};
}

}  // namespace mneme::ops
