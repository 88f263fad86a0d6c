#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mneme/cache/block_copies.h"
#include "mneme/cache/block_list.h"
#include "mneme/cache/block_pool.h"
#include "mneme/cache/retention.h"
#include "mneme/quant/block_codec.h"

namespace mneme {

/// How the blocks of a layer are kept and where they come from.
///
/// New tokens go into **raw** blocks. A layer that has a codec, or another tier for what is old, **seals** full blocks:
/// the query at index i sees block b sealed if and only if 64 (b + 1) <= i + 1 - 64 residual_blocks. That is a function
/// of positions alone, so what a query sees depends neither on chunks nor on batch mates.
struct KvStorage {
  Retention retention = Retention::all();
  kernels::BlockLayout layout = {};                     ///< of raw blocks
  std::shared_ptr<const quant::BlockCodec> codec = {};  ///< of sealed blocks; none: they stay as they were
  std::int64_t residual_blocks = 0;                     ///< full blocks that stay raw behind the open one
  at::Device device = at::kCPU;                         ///< where raw blocks lie
  bool rotate_values = false;                           ///< values are stored rotated (kernels/hadamard.h)
  std::int64_t n_readers = 0;                           ///< later layers that read these keys and values in a pass
  std::shared_ptr<BlockPool> raw_pool = {};
  std::shared_ptr<BlockPool> sealed_pool = {};  ///< none: blocks are never sealed
  std::shared_ptr<BlockPool> first_pool = {};   ///< of block 0, which may carry raw tokens besides its codes
  std::vector<std::shared_ptr<BlockPool>> adopted_pools = {};  ///< of blocks that came from a file

  bool seals() const noexcept { return sealed_pool != nullptr; }
  /// Whether prompts pass through in pieces, so that a layer holds little more than it will keep.
  bool piecewise() const noexcept { return seals() || retention.limited(); }
  /// Blocks that the query at index i sees sealed.
  std::int64_t n_sealed_for(std::int64_t i) const;
  /// Tokens to append next to a sequence of this length, of n: up to where the number of sealed blocks changes.
  std::int64_t piece(std::int64_t length, std::int64_t n) const;
  BlockPool& pool_of_sealed(std::int64_t b) const { return b == 0 ? *first_pool : *sealed_pool; }
  /// Raw block, on `device` <- sealed block b.
  void unseal(const BlockRef& sealed, std::int64_t b, std::byte* raw) const;
};

/// Blocks by the pool that they are taken from.
struct BlockCounts {
  std::int64_t raw = 0, sealed = 0, first = 0;

  BlockCounts& operator+=(const BlockCounts& other) {
    raw += other.raw, sealed += other.sealed, first += other.first;
    return *this;
  }
  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
};

/// Keys and values of one sequence in one layer: its raw and its sealed blocks. A block is in either list, or in both
/// while the past is recorded: the raw numbers of a sealed block are kept for a crop then.
class KvSequence {
 public:
  std::int64_t length() const noexcept { return length_; }
  const BlockList& raw() const noexcept { return raw_; }
  const BlockList& sealed() const noexcept { return sealed_; }
  std::int64_t n_sealed() const noexcept { return sealed_.size(); }
  /// Blocks that the query at index i saw sealed, where the past since is recorded.
  std::int64_t n_sealed_at(const KvStorage& storage, std::int64_t i) const;
  /// Sinks apart, tokens before this one are gone.
  std::int64_t first_held() const noexcept { return first_held_; }

  /// Blocks that a sequence of up to `length` tokens holds at most, pieces under way included. A layer that others read
  /// may hold all raw: a pass may be as long as the text.
  static BlockCounts peak(const KvStorage& storage, std::int64_t length);
  /// Blocks that appending n tokens may take at most.
  BlockCounts needed(const KvStorage& storage, std::int64_t n, bool recording) const;

  /// Whether the open block is shared: the next token copies it.
  bool shares_tail() const;

  /// Takes the memory of lists for up to `length` tokens.
  void reserve(const KvStorage& storage, std::int64_t length);

  /// The block that the next token goes to, held by nobody else. The caller writes from slot length() % 64 on, and has
  /// to clear what is behind it if `take_stale_tail` says so.
  std::byte* open_block(const KvStorage& storage);
  /// Whether a crop left old numbers behind the last token of the open block; asked once.
  bool take_stale_tail() noexcept { return std::exchange(stale_tail_, false); }
  void extend(std::int64_t n) noexcept { length_ += n; }

  /// What a sequence is made of, as it is saved.
  struct Parts {
    std::vector<BlockRef> raw, sealed;
    std::int64_t length = 0, first_held = 0;
    bool stale_tail = false;
  };
  /// Why parts cannot be a sequence, or nothing.
  static std::string fault_of(const KvStorage& storage, const Parts& parts);
  KvSequence() = default;
  /// fault_of(storage, parts) must be empty. The open block is copied: it will be written to.
  KvSequence(const KvStorage& storage, Parts parts);
  bool stale_tail() const noexcept { return stale_tail_; }

  /// The same sequence in blocks of the pools of a storage of the same kind.
  KvSequence copied_to(const KvStorage& storage, BlockCopies& copies) const;

  /// Adds block n_sealed(), which retention may have let go (an empty one then); its raw numbers go unless they are
  /// recorded for a crop.
  void seal_next(const KvStorage& storage, BlockRef sealed, bool recording);
  /// Lets go of what no later query sees, and of what was only recorded. Not while recording.
  void let_go(const KvStorage& storage);

  /// Whether what a sequence of n tokens less would see is still there.
  bool can_crop(const KvStorage& storage, std::int64_t n, bool recording) const;
  /// The longest length up to `length` that a crop would leave just as a sequence that never was longer: with the same
  /// tokens held, and the same of them raw. 0 if there is none.
  std::int64_t exact_length(const KvStorage& storage, std::int64_t length, bool recording) const;
  /// Raw blocks that `crop(n)` takes: one if it opens a sealed block again.
  std::int64_t needed_to_crop(const KvStorage& storage, std::int64_t n) const;
  /// Removes the last n tokens and lets go of what was only recorded.
  void crop(const KvStorage& storage, std::int64_t n);

 private:
  BlockList raw_, sealed_;
  std::int64_t length_ = 0;
  std::int64_t first_held_ = 0;
  bool stale_tail_ = false;
};

}  // namespace mneme
