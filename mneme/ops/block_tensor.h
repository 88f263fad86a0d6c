#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mneme/kernels/kernels.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// Panels of a format (kernels.h) as a tensor: a view [n_tiles, n_panels, 16, inner / pair, pair] of memory where tiles
/// of n_panels each begin tile_bytes apart. The first axes of a tile are the outputs, the last two the inner dimension
/// with its padding; pair is 2 for bfloat16, else 1.
at::Tensor panel_view(DType format, const std::byte* panels, std::int64_t n_tiles, std::int64_t tile_bytes,
                      std::int64_t n_panels, std::int64_t inner, at::Device device);

/// A copy of such a view as matrices [n_tiles, 16 n_panels, padded inner].
at::Tensor unpacked(const at::Tensor& panel_view);

/// Writes n tokens into one block, on any device: keys rows [n, key_offset + Hkv * key_dim ..], values likewise, token
/// t of the block's slots [first_slot, first_slot + n) from row first_row + t. Values are rounded to the layout's
/// format.
void store_tokens(Workspace& workspace, const kernels::BlockLayout& layout, std::byte* block, std::int64_t first_slot,
                  std::int64_t n, const Rows& keys, std::int64_t key_offset, const Rows& values,
                  std::int64_t value_offset, std::int64_t first_row);

/// Exact copies of slots [first_slot, first_slot + n) of a block, in its own dtype:
/// keys [Hkv, n, key_dim], values [Hkv, n, value_dim] on `device`.
std::pair<at::Tensor, at::Tensor> load_tokens(const kernels::BlockLayout& layout, const std::byte* block,
                                              std::int64_t first_slot, std::int64_t n, at::Device device);

}  // namespace mneme::ops
