#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "mneme/base/dtype.h"
#include "mneme/ops/attention.h"
#include "mneme/ops/workspace.h"

namespace mneme {

/// New keys and values of one layer as they come out of its projections: rows of all new tokens, heads side by side.
struct KeyValueRows {
  ops::Rows keys = {};  ///< key of head h: keys[n][key_offset + h * key_dim ..]
  std::int64_t key_offset = 0;
  ops::Rows values = {};
  std::int64_t value_offset = 0;
};

/// How the blocks of a layer are stored, and the attention that reads them so. Stateless and shared.
class Codec {
 public:
  virtual ~Codec() = default;

  /// "float32", "bfloat16", "float16".
  virtual std::string name() const = 0;
  /// Heads and head sizes of the blocks, and the layout of one that still takes tokens.
  virtual const kernels::BlockLayout& layout() const = 0;
  virtual std::int64_t block_bytes() const = 0;

  /// Writes rows [first_row, first_row + n) into slots [first_slot, first_slot + n) of a block that nobody shares.
  virtual void store(ops::Workspace& workspace, std::byte* block, std::int64_t first_slot, std::int64_t n,
                     const KeyValueRows& rows, std::int64_t first_row) const = 0;
  /// Slots of a block as keys [Hkv, n, key_dim] and values [Hkv, n, value_dim].
  virtual std::pair<at::Tensor, at::Tensor> load(const std::byte* block, std::int64_t first_slot, std::int64_t n,
                                                 at::Device device) const = 0;
  /// ops::attend over blocks stored in this way.
  virtual void attend(ops::Workspace& workspace, std::span<const ops::AttendSequence> sequences,
                      const ops::AttendOptions& options, const ops::Rows& q, std::int64_t q_offset,
                      const ops::Rows& out) const = 0;
};

/// Keys and values as plain numbers of one dtype, in the panels that the product kernels read (kernels.h).
/// Throws Error(kInvalidArgument) unless all sizes are positive and a block's bytes fit 63 bits.
std::shared_ptr<const Codec> float_codec(DType dtype, std::int64_t n_heads, std::int64_t key_dim,
                                         std::int64_t value_dim);

}  // namespace mneme
