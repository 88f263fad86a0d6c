#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mneme/cache/block_pool.h"
#include "mneme/kernels/visibility.h"

namespace mneme {

/// The blocks of one sequence in one layer: entry b holds tokens 64 b .. 64 b + 63, or nothing once retention let it
/// go.
///
/// Entries live in chunks of 64 that copies of a list share, counted by chunk; the first change to a shared chunk
/// copies it. So copying a list of n blocks costs n / 64 counts, and lists that grew apart share what they had in
/// common.
class BlockList {
 public:
  static constexpr std::int64_t kChunkBlocks = 64;

  BlockList() = default;
  BlockList(const BlockList& other);
  BlockList(BlockList&& other) noexcept = default;
  BlockList& operator=(BlockList other) noexcept {
    chunks_.swap(other.chunks_);
    spares_.swap(other.spares_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~BlockList();

  /// Number of entries, those let go included.
  std::int64_t size() const noexcept { return size_; }

  /// The block at an entry; empty if it was let go. b < size().
  const BlockRef& at(std::int64_t b) const;

  /// Whether there is a block that this list alone holds: its chunk is not shared, nor the block itself.
  bool owns(std::int64_t b) const;

  /// Lists that hold the block of an entry, if all of them share its chunk; else 0.
  std::int64_t n_sharing(std::int64_t b) const;

  /// Takes the memory that a list of up to n entries needs: until then, changing the list allocates nothing. Copies do
  /// not have it.
  void reserve(std::int64_t n);

  void push_back(BlockRef block);
  void replace(std::int64_t b, BlockRef block);
  /// Lets the block of an entry go; the entry stays.
  void release(std::int64_t b) { replace(b, BlockRef()); }
  /// The same for all entries before n. Costs a look at each chunk that holds nothing.
  void release_before(std::int64_t n);
  /// Drops entries from the end.
  void truncate(std::int64_t n);

  /// Pointers to the data of the kSpanBlocks blocks from entry b on (b a multiple of kSpanBlocks, b < size()); entries
  /// past the end are null. Valid until the list changes.
  const std::byte* const* span(std::int64_t b) const;

  /// Adds every block held to `seen` (for counting bytes once when lists share).
  template <class F>
  void each_block(F&& f) const {
    for (std::int64_t b = 0; b < size_; ++b) {
      if (!chunks_[static_cast<std::size_t>(b / kChunkBlocks)]) {
        b += kChunkBlocks - 1;
      } else if (const BlockRef& block = at(b)) {
        f(block);
      }
    }
  }

 private:
  struct Chunk {
    std::atomic<std::int64_t> references{1};
    const std::byte* data[kChunkBlocks] = {};
    BlockRef blocks[kChunkBlocks];
  };
  static_assert(kChunkBlocks % kernels::kSpanBlocks == 0);

  Chunk* new_chunk();
  Chunk& own_chunk(std::size_t c);
  void drop(Chunk* chunk) noexcept;

  std::vector<Chunk*> chunks_;                  // null: nothing held
  std::vector<std::unique_ptr<Chunk>> spares_;  // empty ones; as many as there is capacity for are kept
  std::int64_t size_ = 0;
};

}  // namespace mneme
