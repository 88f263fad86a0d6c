#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mneme/kernels/kernels.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

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
