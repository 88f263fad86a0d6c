#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mneme/cache/kv_layer.h"
#include "mneme/cache/shape.h"
#include "mneme/ops/workspace.h"

namespace mneme {

/// When a cache takes its memory, and limits on it.
struct CacheOptions {
  /// Unset: blocks are taken as tokens come (dynamic). Set: memory for this many tokens a sequence is taken once
  /// (static).
  std::optional<std::int64_t> max_cache_len = {};
  /// Static only: sequences to take memory for, at construction. Unset: as many as the first tokens come for, when they
  /// come; only select() and its kin make it more.
  std::optional<std::int64_t> max_batch_size = {};
  /// More bytes of blocks than this are an Error(kOutOfMemory). Unset: the machine's memory is the limit.
  std::optional<std::int64_t> max_cache_bytes = {};
  /// Keys and values are stored in this dtype. Unset: the model's.
  std::optional<DType> dtype = {};
};

/// The keys and values of all layers of a model for a batch of sequences. The presets DynamicCache and StaticCache
/// (presets.h) are this class with options.
///
/// Sequences may have different lengths: a cache knows only real tokens, never padding. A cache is used by one call at
/// a time (a second one at the same moment is an error); copies are independent and may be used by other threads.
class Cache {
 public:
  /// Throws Error(kInvalidArgument) for options that cannot be, Error(kOutOfMemory) if a static cache of known batch
  /// size does not fit.
  Cache(const CacheShape& shape, const CacheOptions& options);
  Cache(Cache&&) noexcept = default;
  Cache& operator=(Cache&&) noexcept = default;

  /// Another cache with the same content that shares all blocks with this one: O(layers), no tokens are copied. What
  /// either appends afterwards is its own.
  Cache copy() const;

  /// Tokens of the longest sequence, whatever a window let go of. 0 when empty.
  std::int64_t seq_length() const;
  /// Tokens of each sequence.
  std::vector<std::int64_t> lengths() const;
  std::int64_t n_sequences() const noexcept { return layers_.empty() ? 0 : layers_.front().n_sequences(); }
  /// Tokens that a sequence can hold; nothing for a cache that grows.
  std::optional<std::int64_t> max_length() const noexcept { return options_.max_cache_len; }
  /// "dynamic" or "static".
  std::string implementation() const { return options_.max_cache_len ? "static" : "dynamic"; }

  std::vector<KvLayer>& layers() noexcept { return layers_; }
  const std::vector<KvLayer>& layers() const noexcept { return layers_; }
  KvLayer& layer(std::int64_t i);

  /// The classic door: appends keys and values [B, Hkv, T, D] to a layer and returns all that the new tokens see,
  /// [B, Hkv, L, D]. O(L); models use KvLayer::attend instead. Throws Error(kInvalidArgument / kFailedPrecondition) for
  /// shapes, a layer that is not there, sequences of unequal length or a full static cache; nothing changes then.
  std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values, std::int64_t layer_idx);

  /// Removes the last -n tokens of every sequence; n <= 0. `crop(0)` removes none, but frees what was only recorded.
  /// Recording goes on.
  /// Throws Error(kInvalidArgument) for a positive n or one past a sequence's length, Error(kFailedPrecondition) if a
  /// layer has let go of what it would need; nothing changes then.
  void crop(std::int64_t n);

  /// From now on no layer lets go of anything until `crop`, so that a crop always works.
  void activate_past_recording();

  /// Sequence i becomes what sequence beam_idx[i] was. Shares blocks: O(layers).
  void reorder(at::IntArrayRef beam_idx) { select(beam_idx); }
  void reorder(const at::Tensor& beam_idx);
  /// Each sequence n times in a row. Throws Error(kInvalidArgument) for n below 1.
  void repeat_interleave(std::int64_t n);
  /// Keeps these sequences, in this order; an index may come more than once.
  /// Throws Error(kOutOfRange) with index and batch size, and for a static cache Error(kInvalidArgument) for more than
  /// max_batch_size rows or Error(kOutOfMemory); nothing changes then.
  void select(at::IntArrayRef rows);

  /// Empties the cache: no sequences, no tokens, no recording. A static cache keeps its memory.
  void reset();

  /// Bytes of the blocks that this cache holds, shared ones counted once; for a static cache all that it took.
  std::int64_t n_bytes() const;

  /// Makes sure that `counts[i]` tokens can be appended to sequence i of every layer: the step before a forward pass.
  /// An empty cache takes the number of sequences from the counts. Throws Error(kInvalidArgument) for another batch
  /// size, Error(kFailedPrecondition) for a full static cache, Error(kOutOfMemory); nothing changes then.
  void prepare(std::span<const std::int64_t> counts);

  ops::Workspace& workspace() noexcept { return *workspace_; }

  /// Marks a cache as in use by one call. Throws Error(kFailedPrecondition) if it already is.
  class Use {
   public:
    explicit Use(Cache& cache);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Cache& cache_;
  };

 private:
  Cache(const Cache& other);
  template <class Needed>
  void reserve(const Needed& needed);
  template <class Blocks>
  std::int64_t blocks_from(const BlockPool& pool, const Blocks& blocks) const;
  void reserve_rows(std::int64_t n_sequences);
  void check_room(const KvLayer& layer, std::span<const std::int64_t> counts) const;
  void start(std::int64_t n_sequences);

  CacheOptions options_;
  at::Device device_;
  std::shared_ptr<ByteBudget> budget_;
  std::map<std::int64_t, std::shared_ptr<BlockPool>>
      pools_;  // by block size; before the layers, which give blocks back
  std::vector<KvLayer> layers_;
  std::int64_t reserved_rows_ = 0;  // static: sequences that memory was taken for
  std::unique_ptr<ops::Workspace> workspace_;
  std::unique_ptr<std::atomic<bool>> in_use_;
};

}  // namespace mneme
