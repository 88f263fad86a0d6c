#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mneme/cache/block_list.h"
#include "mneme/cache/block_pool.h"
#include "mneme/cache/codec.h"
#include "mneme/cache/retention.h"

namespace mneme {

/// What an attention layer's cache is made of. Any retention goes with any codec.
struct KvLayerOptions {
  Retention retention = Retention::all();
  std::shared_ptr<const Codec> codec = {};
};

/// Queries of an attention call and how scores become weights.
struct AttendQuery {
  ops::Rows q = {};  ///< head h of a row at q[n][q_offset + h * key_dim ..], rotated, not scaled
  std::int64_t q_offset = 0;
  std::int64_t n_heads = 0;
  float scale = 1.0f;
  float softcap = 0.0f;
  at::Tensor sinks = {};  ///< [n_heads] float32 sink logits (gpt-oss), or undefined
};

/// The keys and values of one attention layer: for each sequence a list of blocks.
///
/// Lengths count every token that was ever appended and not cropped, whatever retention let go since.
/// Copying a layer shares all blocks; a shared block is copied when one side writes to it.
class KvLayer {
 public:
  using KeysAndValues = std::pair<at::Tensor, at::Tensor>;

  KvLayer(KvLayerOptions options, std::shared_ptr<BlockPool> pool);
  KvLayer(const KvLayer&) = default;
  KvLayer(KvLayer&&) noexcept = default;
  /// By swapping: the old blocks must go before the pool that they go back to.
  KvLayer& operator=(KvLayer other) noexcept;

  const Retention& retention() const noexcept { return options_.retention; }
  const Codec& codec() const noexcept { return *options_.codec; }
  std::int64_t n_sequences() const noexcept { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t length(std::int64_t sequence) const { return sequences_[static_cast<std::size_t>(sequence)].length; }

  /// Starts with this many empty sequences.
  void start(std::int64_t n_sequences) { sequences_.resize(static_cast<std::size_t>(n_sequences)); }
  /// As new: no sequences, no recording.
  void reset() noexcept;

  /// Blocks that a sequence of up to `length` tokens holds at most, pieces under way included.
  std::int64_t peak_blocks(std::int64_t length) const;

  /// Blocks that appending `counts[i]` tokens to sequence i may take from the pool at most.
  std::int64_t blocks_needed(std::span<const std::int64_t> counts) const;

  /// Appends the tokens of rows [row_starts[i], row_starts[i + 1]) to sequence i and attends from each of them to all
  /// it may see, itself included. out [N, n_heads * value_dim]. Long prompts pass through a window in pieces of a
  /// block, so a layer with limited retention never holds more than it needs plus a block.
  void attend(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const KeyValueRows& rows,
              const AttendQuery& query, const ops::Rows& out);

  /// Throws Error(kInvalidArgument) unless keys and values are [B, Hkv, T, D] of this layer's sizes, and for a tensor
  /// that requires grad (caches are for inference); Error(kFailedPrecondition) for sequences of unequal length.
  void check_update(const at::Tensor& keys, const at::Tensor& values) const;

  /// Appends keys and values [B, Hkv, T, D] and returns what T new queries see together: [B, Hkv, L, D] in the codec's
  /// dtype. O(L). check_update(keys, values) must hold, and B be the number of sequences.
  KeysAndValues update(ops::Workspace& workspace, const at::Tensor& keys, const at::Tensor& values);

  /// What the next query may see, [B, Hkv, L', D]. Throws Error(kFailedPrecondition) if lengths differ.
  at::Tensor keys() const { return visible().first; }
  at::Tensor values() const { return visible().second; }

  /// From now on nothing is let go until `crop`.
  void activate_past_recording() noexcept { recording_ = true; }
  bool recording() const noexcept { return recording_; }

  /// Throws unless `crop(n)` would work: Error(kInvalidArgument) if n is above a length, Error(kFailedPrecondition) if
  /// what the shorter sequence needs has been let go.
  void check_crop(std::int64_t n) const;
  /// Removes the last n tokens of every sequence and lets go what was only recorded. check_crop(n) must hold.
  void crop(std::int64_t n);

  /// Sequence i becomes a copy of what sequence indices[i] is. Shares blocks.
  void select(std::span<const std::int64_t> indices);

  /// Calls f(block) for every block that a sequence holds; shared ones come more than once.
  template <class F>
  void each_block(F&& f) const {
    for (const Sequence& s : sequences_) s.blocks.each_block(f);
  }

 private:
  struct Sequence {
    BlockList blocks;
    std::int64_t length = 0;
    std::int64_t first_held = 0;  // sinks apart, tokens before it are gone
    bool stale_tail = false;      // a crop left old numbers behind the last token of the open block
  };

  void append(ops::Workspace& workspace, const KeyValueRows& rows, std::span<const std::int64_t> first_rows,
              std::span<const std::int64_t> counts);
  std::byte* open_block(ops::Workspace& workspace, Sequence& sequence);
  void let_go(Sequence& sequence) const;
  KeysAndValues gather(const Sequence& sequence, std::int64_t first, std::int64_t last) const;
  KeysAndValues gather(std::int64_t first, std::int64_t last) const;
  KeysAndValues visible() const;
  void check_equal_lengths() const;

  KvLayerOptions options_;
  std::shared_ptr<BlockPool> pool_;  // before the sequences: blocks go back to it
  std::vector<Sequence> sequences_;
  bool recording_ = false;
};

}  // namespace mneme
