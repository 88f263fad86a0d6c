#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mneme/cache/cache_layer.h"
#include "mneme/cache/plan.h"
#include "mneme/cache/shape.h"
#include "mneme/ops/workspace.h"

namespace mneme {

/// What a saved cache is remembered by.
struct CacheSaveOptions {
  std::vector<std::vector<std::int64_t>> token_ids = {};  ///< of each sequence, to find it again by what it holds
  std::string model = {};                                 ///< a fingerprint of the model, checked when it is loaded
};
struct CacheLoadOptions {
  std::string model = {};                          ///< must be the saved one, where both are given
  std::optional<std::string> offload_folder = {};  ///< for what an offloaded cache will add
  bool map = true;  ///< false: the file is read at once, and may change or go away with its disk
};

/// What all layers of a model hold for a batch of sequences: keys and values, states, or both. The presets DynamicCache
/// and StaticCache (presets.h) are this class with options.
///
/// Sequences may have different lengths: a cache knows only real tokens, never padding. A cache is used by one call at
/// a time (a second one at the same moment is an error); copies are independent and may be used by other threads.
class Cache {
 public:
  /// Throws Error(kInvalidArgument) for options that cannot be, Error(kOutOfMemory) or Error(kIo) if a static cache of
  /// known batch size does not fit, Error(kIo) for a folder that cannot be offloaded to.
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
  /// "dynamic", "static", "offloaded", "offloaded_static", "quantized", "quantized_offloaded_static" and so on.
  const std::string& implementation() const noexcept { return plan_.implementation; }
  /// What was asked for: another cache of this shape fits the same model.
  const CacheShape& shape() const noexcept { return shape_; }
  /// What each layer was made to be.
  const CachePlan& plan() const noexcept { return plan_; }

  std::vector<CacheLayer>& layers() noexcept { return layers_; }
  const std::vector<CacheLayer>& layers() const noexcept { return layers_; }
  CacheLayer& layer(std::int64_t i);

  /// The classic door: appends keys and values [B, Hkv, T, D] to a layer and returns all that the new tokens see,
  /// [B, Hkv, L, D]. O(L); models use KvLayer::attend instead. Throws Error(kInvalidArgument / kFailedPrecondition) for
  /// shapes, a layer that is not there or has no attention, sequences of unequal length or a full static cache; nothing
  /// changes then.
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
  /// Adds the sequences of another cache of the same kind (layers, codecs, placement; growth may differ) behind those
  /// that are here: what came in the meantime joins a batch that is under way. Shares blocks with a cache that is a
  /// copy of this one, or of which this one is, whatever either holds by now: O(layers). Those of any other cache are
  /// copied, each once.
  /// Throws Error(kInvalidArgument) for another kind, too long a sequence or more than max_batch_size of a static
  /// cache, Error(kFailedPrecondition) if one of the two records its past and the other does not, Error(kOutOfMemory)
  /// or Error(kIo); nothing changes then.
  void add_sequences(const Cache& other);

  /// Writes the cache to a file that says all of itself (cache_file.h). Blocks are written as they are, shared ones
  /// once, wherever they lie. The file appears when it is whole. Throws Error(kIo) with the reason,
  /// Error(kInvalidArgument) for token ids of another number of sequences.
  void save(const std::string& path, const CacheSaveOptions& options = {}) const;

  /// The cache that was saved, bit for bit, for a model of the same shape. Blocks stay in the file and come into memory
  /// when they are read, so this costs no O(context); the file must not be changed while the cache lives (deleting or
  /// replacing it is fine). They count as offloaded until they are written to. For another device than the CPU, or if
  /// the options say so, all are brought where the cache would have put them.
  /// Throws Error(kIo), Error(kCorruptData) for a damaged file or one of another kind, Error(kInvalidArgument) for
  /// another model, Error(kUnsupported) for a newer version, and where blocks are brought Error(kOutOfMemory).
  static Cache load(const std::string& path, const CacheShape& shape, const CacheLoadOptions& options = {});

  /// Empties the cache: no sequences, no tokens, no recording. A static cache keeps its memory.
  void reset();

  /// Bytes of memory that this cache's blocks take, shared ones counted once; for a static cache all that it took.
  std::int64_t n_bytes() const { return bytes_in(/*resident=*/true); }
  /// The same for blocks that were moved out of the compute device's memory.
  std::int64_t n_bytes_offloaded() const { return bytes_in(/*resident=*/false); }

  /// Makes sure that `counts[i]` tokens can be appended to sequence i of every layer: the step before a forward pass,
  /// which Pass does.
  /// An empty cache takes the number of sequences from the counts. Throws Error(kInvalidArgument) for another batch
  /// size, Error(kFailedPrecondition) for a full static cache, Error(kOutOfMemory), Error(kIo) for a full disk; nothing
  /// changes then.
  void prepare(std::span<const std::int64_t> counts);

  /// One forward pass: prepares for it, and takes back what some layers have appended if it ends before `done()`.
  /// Where a layer cannot take back (a window that moved on, a state that is not recorded), the cache says so to
  /// whoever wants to use it next, until it is reset.
  class Pass {
   public:
    Pass(Cache& cache, std::span<const std::int64_t> counts);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    void done() noexcept { done_ = true; }

   private:
    Cache& cache_;
    bool done_ = false;
  };

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
  /// Where the blocks of a layer come from, by index in pools_.
  struct LayerPools {
    std::size_t raw = 0, sealed = 0, first = 0, states = 0, inputs = 0;
  };

  Cache(const Cache& other);
  std::size_t add_pool(std::int64_t block_bytes, std::shared_ptr<Tier> tier);
  KvLayer make_attention(const LayerPlan& plan, const std::shared_ptr<Tier>& memory, LayerPools& at);
  StateLayer make_state(const StateShape& shape, const std::shared_ptr<Tier>& memory, LayerPools& at);
  void want(std::size_t layer, const CacheLayer::Blocks& blocks, std::int64_t times = 1);
  void reserve_wanted();
  void reserve_rows(std::int64_t n_sequences);
  void check_room(const CacheLayer& layer, std::span<const std::int64_t> counts) const;
  void check_whole() const;
  void check_like(const Cache& other) const;
  void make_room_for(std::int64_t n_sequences);
  void start(std::int64_t n_sequences);
  void add_prefetcher();
  void take_back_pass();
  std::int64_t bytes_in(bool resident) const;

  CacheShape shape_;
  CacheOptions options_;
  CachePlan plan_;
  at::Device device_;
  std::shared_ptr<ByteBudget> budget_;
  std::shared_ptr<Tier> offload_tier_;             // or null
  std::shared_ptr<Prefetcher> prefetcher_;         // or null
  std::vector<std::shared_ptr<BlockPool>> pools_;  // before the layers, which give blocks back
  std::vector<std::int64_t> wanted_;               // by pool: blocks about to be taken
  std::vector<LayerPools> layer_pools_;
  std::vector<CacheLayer> layers_;
  std::int64_t reserved_rows_ = 0;  // static: sequences that memory was taken for
  std::vector<std::int64_t> lengths_before_pass_;
  bool interrupted_ = false;  // layers are of unequal lengths
  std::unique_ptr<ops::Workspace> workspace_;
  std::unique_ptr<std::atomic<bool>> in_use_;
};

}  // namespace mneme
