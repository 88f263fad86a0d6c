#include "mneme/ops/block_tensor.h"

#include "mneme/ops/linear.h"

namespace mneme::ops {
namespace {

using kernels::BlockLayout;
using kernels::kBlockTokens;
using kernels::kPanel;

/// The tiles of all heads: keys [Hkv, 64, key_dim] and values [Hkv, value_dim, 64], before unpacking.
at::Tensor key_view(const BlockLayout& layout, const std::byte* block, at::Device device) {
  return panel_view(layout.format, block, layout.n_heads, layout.head_bytes(), kBlockTokens / kPanel, layout.key_dim,
                    device);
}

at::Tensor value_view(const BlockLayout& layout, const std::byte* block, at::Device device) {
  return panel_view(layout.format, block + layout.key_tile_bytes(), layout.n_heads, layout.head_bytes(),
                    kernels::round_up(layout.value_dim, kPanel) / kPanel, kBlockTokens, device);
}

void store_through_aten(const Workspace& workspace, const BlockLayout& layout, std::byte* block,
                        std::int64_t first_slot, const at::Tensor& keys, const at::Tensor& values) {
  const std::int64_t n = keys.size(1);
  const at::Tensor key_tile = key_view(layout, block, workspace.device()),
                   value_tile = value_view(layout, block, workspace.device());
  at::Tensor all_keys = unpacked(key_tile), all_values = unpacked(value_tile);
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

at::Tensor panel_view(DType format, const std::byte* panels, std::int64_t n_tiles, std::int64_t tile_bytes,
                      std::int64_t n_panels, std::int64_t inner, at::Device device) {
  const std::int64_t pair = format == DType::kBFloat16 ? 2 : 1, padded = kernels::padded_inner(format, inner);
  const std::int64_t tile = tile_bytes / static_cast<std::int64_t>(size_of(format));
  return at::from_blob(const_cast<std::byte*>(panels), {n_tiles, n_panels, kPanel, padded / pair, pair},
                       {tile, padded * kPanel, pair, pair * kPanel, 1},
                       at::TensorOptions().dtype(scalar_type(format)).device(device));
}

at::Tensor unpacked(const at::Tensor& view) {
  // A reshape alone would give small sizes back as views of the panels.
  return view.clone(at::MemoryFormat::Contiguous)
      .view({view.size(0), view.size(1) * view.size(2), view.size(3) * view.size(4)});
}

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
  const at::Tensor keys = unpacked(key_view(layout, block, device)),
                   values = unpacked(value_view(layout, block, device));
  return {keys.narrow(1, first_slot, n).narrow(2, 0, layout.key_dim),
          values.narrow(2, first_slot, n).narrow(1, 0, layout.value_dim).transpose(1, 2)};
}

}  // namespace mneme::ops
