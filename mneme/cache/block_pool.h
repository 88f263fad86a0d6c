#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mneme/cache/tier.h"

namespace mneme {

class BlockPool;

/// One block of memory and how many block lists hold it.
struct Block {
  std::atomic<std::int64_t> references{0};
  BlockPool* pool = nullptr;
  std::byte* data = nullptr;
  bool fresh = true;  ///< never given out: zero since its slab was taken
};

/// A counted reference to a block; the last one returns the block to its pool.
class BlockRef {
 public:
  BlockRef() = default;
  explicit BlockRef(Block* block) noexcept : block_(block) {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  BlockRef(const BlockRef& other) noexcept : BlockRef(other.block_) {}
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef();

  explicit operator bool() const noexcept { return block_ != nullptr; }
  std::byte* data() const noexcept { return block_ ? block_->data : nullptr; }
  /// Whether nobody else holds the block: only then may it be written to.
  bool unique() const noexcept { return block_->references.load(std::memory_order_acquire) == 1; }
  const Block* get() const noexcept { return block_; }
  /// Of a block that is there.
  BlockPool* pool() const noexcept { return block_->pool; }

 private:
  Block* block_ = nullptr;
};

/// A limit on bytes that several pools share, and what they use of it. Zero means no limit.
class ByteBudget {
 public:
  explicit ByteBudget(std::int64_t limit) : limit_(limit) {}
  /// Throws Error(kOutOfMemory) with both numbers, and takes nothing, when the limit would be passed.
  void take(std::int64_t n_bytes);
  /// The same question without taking: so that one of several pools does not grow before another is refused.
  void check_room(std::int64_t n_bytes) const;
  void give_back(std::int64_t n_bytes) noexcept { used_.fetch_sub(n_bytes, std::memory_order_relaxed); }

 private:
  [[noreturn]] void refuse(std::int64_t used, std::int64_t n_bytes) const;

  const std::int64_t limit_;
  std::atomic<std::int64_t> used_{0};
};

/// Blocks of one size in one tier. Memory is taken in slabs and kept until the pool dies; freed blocks are reused.
/// Thread safe: forks of a cache share their pool.
class BlockPool {
 public:
  /// Bytes of a resident tier are taken from the budget.
  BlockPool(std::int64_t block_bytes, std::shared_ptr<Tier> tier, std::shared_ptr<ByteBudget> budget);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  std::int64_t block_bytes() const noexcept { return block_bytes_; }
  Tier& tier() const noexcept { return *tier_; }

  /// Makes room for n more blocks than are in use, in one slab. Throws Error(kOutOfMemory) and changes nothing.
  void reserve(std::int64_t n);
  /// Bytes that reserve(n) would take; INT64_MAX if they are more.
  std::int64_t bytes_to_reserve(std::int64_t n) const;

  /// Blocks that lie in memory which is there already, in order; it stays as long as the pool.
  std::vector<BlockRef> adopt(TierMemory memory, std::int64_t n);

  /// A block that nobody else holds, its content whatever was there. Throws Error(kOutOfMemory).
  BlockRef take() { return BlockRef(take_any()); }
  /// The same, zeroed.
  BlockRef take_zeroed();
  /// A copy of `source`, a block of as many bytes, that nobody else holds.
  BlockRef take_copy(const BlockRef& source);

  std::int64_t n_in_use() const noexcept { return n_in_use_.load(std::memory_order_relaxed); }
  /// Blocks that slabs have room for. Constant once a static cache has taken its memory.
  std::int64_t capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }

 private:
  friend class BlockRef;
  void put_back(Block* block) noexcept;
  void add_slab(std::int64_t n);
  void add_blocks(TierMemory memory, std::int64_t n);
  Block* take_any(bool* is_zero = nullptr);

  struct Slab {
    TierMemory memory;
    std::unique_ptr<Block[]> blocks;
  };

  const std::int64_t block_bytes_;
  const std::shared_ptr<Tier> tier_;
  const std::shared_ptr<ByteBudget> budget_;  // of resident tiers
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::vector<Block*> free_;
  std::atomic<std::int64_t> n_in_use_{0}, capacity_{0};
};

}  // namespace mneme
