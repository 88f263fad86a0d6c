#include "mneme/cache/block_pool.h"

#include <algorithm>

#include "mneme/base/error.h"

namespace mneme {
namespace {

// A slab is worth a system call and a huge page or two, but little enough that a small cache stays small.
constexpr std::int64_t kSlabBytes = std::int64_t{4} << 20;

}  // namespace

BlockRef::~BlockRef() {
  if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) block_->pool->put_back(block_);
}

void ByteBudget::take(std::int64_t n_bytes) {
  const std::int64_t before = used_.fetch_add(n_bytes, std::memory_order_relaxed);
  if (limit_ == 0 || n_bytes <= limit_ - before) return;
  give_back(n_bytes);
  refuse(before, n_bytes);
}

void ByteBudget::check_room(std::int64_t n_bytes) const {
  const std::int64_t used = used_.load(std::memory_order_relaxed);
  if (limit_ != 0 && n_bytes > limit_ - used) refuse(used, n_bytes);
}

void ByteBudget::refuse(std::int64_t used, std::int64_t n_bytes) const {
  throw Error(ErrorKind::kOutOfMemory,
              "cache out of memory: {} bytes in use + {} more exceed max_cache_bytes = {}; raise it or store tokens "
              "in fewer bytes (cache_config: backend, offloading)",
              used, n_bytes, limit_);
}

BlockPool::BlockPool(std::int64_t block_bytes, std::shared_ptr<Tier> tier, std::shared_ptr<ByteBudget> budget)
    : block_bytes_(block_bytes), tier_(std::move(tier)), budget_(std::move(budget)) {}

BlockPool::~BlockPool() {
  for (const Slab& slab : slabs_) {
    if (tier_->resident()) budget_->give_back(slab.memory.n_bytes);
  }
}

void BlockPool::add_slab(std::int64_t n) {
  std::int64_t n_bytes;
  check(!__builtin_mul_overflow(n, block_bytes_, &n_bytes), ErrorKind::kOutOfMemory,
        "cache out of memory: {} blocks of {} bytes are more than any machine has", n, block_bytes_);
  if (tier_->resident()) budget_->take(n_bytes);
  try {
    add_blocks(tier_->take(n_bytes), n);
  } catch (...) {
    if (tier_->resident()) budget_->give_back(n_bytes);
    throw;
  }
}

/// Adds blocks to the free ones, the last first.
void BlockPool::add_blocks(TierMemory memory, std::int64_t n) {
  Slab slab{.memory = std::move(memory), .blocks = std::make_unique<Block[]>(static_cast<std::size_t>(n))};
  // Every free block finds room: putting one back never allocates.
  free_.reserve(static_cast<std::size_t>(capacity() + n));
  slabs_.reserve(slabs_.size() + 1);
  for (std::int64_t i = n - 1; i >= 0; --i) {
    Block& block = slab.blocks[static_cast<std::size_t>(i)];
    block.pool = this;
    block.data = slab.memory.data + i * block_bytes_;
    free_.push_back(&block);
  }
  slabs_.push_back(std::move(slab));
  capacity_.fetch_add(n, std::memory_order_relaxed);
}

std::vector<BlockRef> BlockPool::adopt(TierMemory memory, std::int64_t n) {
  {
    const std::lock_guard lock(mutex_);
    add_blocks(std::move(memory), n);
  }
  std::vector<BlockRef> blocks;
  blocks.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) blocks.push_back(take());
  return blocks;
}

void BlockPool::reserve(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  const auto spare = static_cast<std::int64_t>(free_.size());
  if (spare < n) add_slab(n - spare);
}

std::int64_t BlockPool::bytes_to_reserve(std::int64_t n) const {
  const std::lock_guard lock(mutex_);
  const std::int64_t missing = std::max<std::int64_t>(0, n - static_cast<std::int64_t>(free_.size()));
  std::int64_t n_bytes;
  return __builtin_mul_overflow(missing, block_bytes_, &n_bytes) ? INT64_MAX : n_bytes;
}

Block* BlockPool::take_any(bool* is_zero) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) add_slab(std::max<std::int64_t>(1, std::min<std::int64_t>(64, kSlabBytes / block_bytes_)));
  n_in_use_.fetch_add(1, std::memory_order_relaxed);
  Block* block = free_.back();
  free_.pop_back();
  if (is_zero) *is_zero = block->fresh;
  block->fresh = false;
  return block;
}

BlockRef BlockPool::take_zeroed() {
  bool is_zero = false;
  Block* const block = take_any(&is_zero);
  if (!is_zero) tier_->zero(block->data, block_bytes_);
  return BlockRef(block);
}

BlockRef BlockPool::take_copy(const BlockRef& source) {
  BlockRef copy = take();
  tier_->write(copy.data(), source.data(), block_bytes_, source.pool()->tier().device());
  return copy;
}

void BlockPool::put_back(Block* block) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
  n_in_use_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace mneme
