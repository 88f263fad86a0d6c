#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mneme/cache/kv_sequence.h"
#include "mneme/cache/prefetcher.h"
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

/// Queries of an attention call and how scores become weights.
struct AttendQuery {
  ops::Rows q = {};  ///< head h of a row at q[n][q_offset + h * key_dim ..], rotated, not scaled
  std::int64_t q_offset = 0;
  std::int64_t n_heads = 0;
  float scale = 1.0f;
  float softcap = 0.0f;
  at::Tensor sinks = {};          ///< [n_heads] float32 sink logits (gpt-oss), or undefined
  at::Tensor relative_bias = {};  ///< as in ops::AttendOptions (T5), or undefined
};

/// The keys and values of one attention layer: for each sequence a list of blocks. Any retention goes with any codec
/// and any tier.
///
/// Lengths count every token that was ever appended and not cropped, whatever retention let go since.
/// Copying a layer shares all blocks; a shared block is copied when one side writes to it.
class KvLayer {
 public:
  using KeysAndValues = std::pair<at::Tensor, at::Tensor>;

  explicit KvLayer(KvStorage storage) : storage_(std::move(storage)) {}
  /// Shares the other's blocks. Its prefetches stay its own: a copy has none until set_prefetcher.
  KvLayer(const KvLayer& other);
  KvLayer(KvLayer&&) noexcept = default;
  ~KvLayer();
  /// By swapping: the old blocks must go before the pools that they go back to.
  KvLayer& operator=(KvLayer other) noexcept;

  const KvStorage& storage() const noexcept { return storage_; }
  const Retention& retention() const noexcept { return storage_.retention; }
  const kernels::BlockLayout& layout() const noexcept { return storage_.layout; }
  std::int64_t n_sequences() const noexcept { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t length(std::int64_t sequence) const { return sequences_[static_cast<std::size_t>(sequence)].length(); }
  const KvSequence& sequence(std::int64_t i) const { return sequences_[static_cast<std::size_t>(i)]; }

  /// Starts with this many empty sequences; `max_length` is the most tokens that each will hold, if that is known.
  void start(std::int64_t n_sequences, std::int64_t max_length = 0);
  /// As new: no sequences, no recording.
  void reset() noexcept;

  /// Blocks that appending `counts[i]` tokens to sequence i may take from the pools at most.
  BlockCounts blocks_needed(std::span<const std::int64_t> counts) const;

  /// Appends the tokens of rows [row_starts[i], row_starts[i + 1]) to sequence i and attends from each of them to all
  /// it may see, itself included. out [N, n_heads * value_dim]. Long prompts pass through windows and codecs in pieces
  /// of a block, so a layer never holds more than it needs plus a block; but see attend_again.
  void attend(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const KeyValueRows& rows,
              const AttendQuery& query, const ops::Rows& out);

  /// The first half of `attend`: appends and attends from nothing.
  void append(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const KeyValueRows& rows) {
    attend(workspace, row_starts, rows, {}, {});
  }

  /// The other half: appends nothing. Each of the rows [row_starts[i], row_starts[i + 1]) attends to all tokens of
  /// sequence i, of which there must be one at least, and counts as its token 0, 1, .. for a relative bias: an
  /// encoder's attention, or cross-attention. Throws Error(kFailedPrecondition) for a layer of limited retention.
  void attend_to_all(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const AttendQuery& query,
                     const ops::Rows& out) const;

  /// For each of the storage's n_readers, after `attend` of the same rows: attends from other queries at the same
  /// tokens, and sees what those saw, bit for bit. Until the last of them has read, the layer holds all that the pass
  /// appended. Throws Error(kFailedPrecondition) where all have read.
  void attend_again(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const AttendQuery& query,
                    const ops::Rows& out);

  /// Throws Error(kIo) if a block could not be written to its tier. It stayed in memory and nothing is lost, but the
  /// layer cannot go on.
  void check_written() const;

  /// Throws Error(kInvalidArgument) unless keys and values are [B, Hkv, T, D] of this layer's sizes, and for a tensor
  /// that requires grad (caches are for inference); Error(kFailedPrecondition) for sequences of unequal length.
  void check_update(const at::Tensor& keys, const at::Tensor& values) const;

  /// Appends keys and values [B, Hkv, T, D] and returns what the first of the T new queries sees of the past, and all
  /// new tokens: [B, Hkv, L, D] in the dtype of raw blocks. O(L). check_update(keys, values) must hold, and B be the
  /// number of sequences.
  KeysAndValues update(ops::Workspace& workspace, const at::Tensor& keys, const at::Tensor& values);

  /// What the next query may see, [B, Hkv, L', D]. Throws Error(kFailedPrecondition) if lengths differ.
  at::Tensor keys() const { return visible().first; }
  at::Tensor values() const { return visible().second; }

  /// From now on nothing is let go until `crop`, and sealed blocks keep their raw numbers.
  void activate_past_recording() noexcept { recording_ = true; }
  bool recording() const noexcept { return recording_; }

  /// Throws unless `crop(n)` would work: Error(kInvalidArgument) if n is above a length, Error(kFailedPrecondition) if
  /// what the shorter sequence needs has been let go.
  void check_crop(std::int64_t n) const;
  /// Raw blocks that `crop(n)` takes.
  std::int64_t blocks_to_crop(std::int64_t n) const;
  /// Removes the last n tokens of every sequence and lets go what was only recorded. check_crop(n) must hold.
  void crop(std::int64_t n);

  /// The same for one sequence, down to `length` tokens if it has more. Throws
  /// Error(kFailedPrecondition) if what it would see has been let go.
  void shorten(std::int64_t i, std::int64_t length);

  /// Sequence i becomes a copy of what sequence indices[i] is. Shares blocks.
  void select(std::span<const std::int64_t> indices);

  /// Adds the sequences of a layer of the same kind and the same pools behind those that are here. Shares blocks.
  void add(KvLayer other);

  /// From now on the layer is of these pools, those of a layer of the same kind: copies every block, each once. Throws
  /// Error(kOutOfMemory) or Error(kIo); nothing changes then. O(length).
  void move_to(const KvStorage& storage);

  /// Calls f(block) for every block that a sequence holds; shared ones come more than once.
  template <class F>
  void each_block(F&& f) const {
    for (const KvSequence& s : sequences_) {
      s.raw().each_block(f);
      s.sealed().each_block(f);
    }
  }

  /// Becomes what was saved.
  void restore(KvStorage storage, std::vector<KvSequence> sequences, bool recording) {
    storage_ = std::move(storage), sequences_ = std::move(sequences), recording_ = recording;
  }

  /// Reads of this layer's sealed blocks go through a schedule that brings the next layer's while this one computes.
  void set_prefetcher(std::shared_ptr<Prefetcher> prefetcher, std::int64_t index) noexcept {
    prefetcher_ = std::move(prefetcher), prefetch_index_ = index;
  }

 private:
  void append(ops::Workspace& workspace, const KeyValueRows& rows, std::span<const std::int64_t> first_rows,
              std::span<const std::int64_t> counts);
  void clear_tail(ops::Workspace& workspace, KvSequence& sequence, std::byte* block);
  void seal(ops::Workspace& workspace, std::span<const std::int64_t> targets);
  /// Which tokens of a sequence attend: n queries, the first of them at index `first`, with so many blocks sealed.
  struct Queries {
    std::int64_t first, n, first_row, n_sealed;
  };
  ops::AttendSequence part_of(ops::Workspace& workspace, const KvSequence& sequence, const Queries& queries) const;
  void attend_parts(ops::Workspace& workspace, std::span<const ops::AttendSequence> parts, const AttendQuery& query,
                    const ops::Rows& out) const;
  void begin_reading() const;
  void end_reading() const;
  bool keeps_past() const noexcept { return recording_ || storage_.n_readers > 0; }
  void let_go();
  KeysAndValues gather(const KvSequence& sequence, std::int64_t first, std::int64_t last) const;
  KeysAndValues gather(std::int64_t first, std::int64_t last) const;
  KeysAndValues visible() const;
  void check_crop(const KvSequence& sequence, std::int64_t n) const;
  void check_equal_lengths() const;
  at::Device device() const noexcept { return storage_.device; }

  KvStorage storage_;  // before the sequences: blocks go back to its pools
  std::vector<KvSequence> sequences_;
  bool recording_ = false;
  std::int64_t n_to_read_ = 0;  // readers that the pass is not through with
  std::string write_failure_;
  std::shared_ptr<Prefetcher> prefetcher_;
  std::int64_t prefetch_index_ = 0;
};

}  // namespace mneme
