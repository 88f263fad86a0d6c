#include "mneme/cache/block_list.h"

#include <algorithm>
#include <memory>

namespace mneme {
namespace {

const BlockRef kNoBlock;
const std::byte* const kNoSpan[kernels::kSpanBlocks] = {};

std::size_t chunk_of(std::int64_t b) { return static_cast<std::size_t>(b / BlockList::kChunkBlocks); }

}  // namespace

BlockList::BlockList(const BlockList& other) : chunks_(other.chunks_), size_(other.size_) {
  for (Chunk* chunk : chunks_) {
    if (chunk) chunk->references.fetch_add(1, std::memory_order_relaxed);
  }
}

BlockList::~BlockList() {
  for (Chunk* chunk : chunks_) drop(chunk);
}

void BlockList::reserve(std::int64_t n) {
  const std::size_t n_chunks = n > 0 ? chunk_of(n - 1) + 1 : 0;
  chunks_.reserve(n_chunks);
  spares_.reserve(n_chunks);
  while (chunks_.size() + spares_.size() < n_chunks) spares_.push_back(std::make_unique<Chunk>());
}

BlockList::Chunk* BlockList::new_chunk() {
  if (spares_.empty()) return new Chunk;
  Chunk* const chunk = spares_.back().release();
  spares_.pop_back();
  return chunk;
}

/// Gives up one reference. What nobody holds any more becomes a spare where there is a place for it.
void BlockList::drop(Chunk* chunk) noexcept {
  if (!chunk || chunk->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (spares_.size() == spares_.capacity()) {
    delete chunk;
    return;
  }
  chunk->references.store(1, std::memory_order_relaxed);
  for (std::int64_t i = 0; i < kChunkBlocks; ++i) {
    chunk->data[i] = nullptr;
    chunk->blocks[i] = BlockRef();
  }
  spares_.emplace_back(chunk);
}

const BlockRef& BlockList::at(std::int64_t b) const {
  const Chunk* chunk = chunks_[chunk_of(b)];
  return chunk ? chunk->blocks[b % kChunkBlocks] : kNoBlock;
}

bool BlockList::owns(std::int64_t b) const {
  const Chunk* chunk = chunks_[chunk_of(b)];
  if (!chunk || chunk->references.load(std::memory_order_acquire) != 1) return false;
  const BlockRef& block = chunk->blocks[b % kChunkBlocks];
  return block && block.unique();
}

std::int64_t BlockList::n_sharing(std::int64_t b) const {
  const BlockRef& block = at(b);
  return block && block.unique() ? chunks_[chunk_of(b)]->references.load(std::memory_order_acquire) : 0;
}

BlockList::Chunk& BlockList::own_chunk(std::size_t c) {
  Chunk*& chunk = chunks_[c];
  if (!chunk) {
    chunk = new_chunk();
  } else if (chunk->references.load(std::memory_order_acquire) != 1) {
    Chunk* const copy = new_chunk();
    std::copy(std::begin(chunk->data), std::end(chunk->data), copy->data);
    std::copy(std::begin(chunk->blocks), std::end(chunk->blocks), copy->blocks);
    drop(std::exchange(chunk, copy));
  }
  return *chunk;
}

void BlockList::push_back(BlockRef block) {
  if (chunk_of(size_) == chunks_.size()) chunks_.push_back(nullptr);
  ++size_;
  replace(size_ - 1, std::move(block));
}

void BlockList::replace(std::int64_t b, BlockRef block) {
  const std::size_t c = chunk_of(b);
  if (!block && !chunks_[c]) return;
  Chunk& chunk = own_chunk(c);
  chunk.data[b % kChunkBlocks] = block.data();
  chunk.blocks[b % kChunkBlocks] = std::move(block);
  const auto held = [](const BlockRef& entry) { return static_cast<bool>(entry); };
  if (!chunk.data[b % kChunkBlocks] && std::none_of(std::begin(chunk.blocks), std::end(chunk.blocks), held)) {
    drop(std::exchange(chunks_[c], nullptr));
  }
}

void BlockList::release_before(std::int64_t n) {
  for (std::int64_t b = 0; b < n; ++b) {
    if (!chunks_[chunk_of(b)]) {
      b += kChunkBlocks - 1 - b % kChunkBlocks;
    } else if (at(b)) {
      release(b);
    }
  }
}

void BlockList::truncate(std::int64_t n) {
  while (size_ > n) {
    const std::size_t c = chunk_of(size_ - 1);
    if (const std::int64_t first = static_cast<std::int64_t>(c) * kChunkBlocks; first >= n) {
      drop(chunks_[c]);
      chunks_.pop_back();
      size_ = first;
    } else {
      --size_;
      replace(size_, BlockRef());
    }
  }
}

const std::byte* const* BlockList::span(std::int64_t b) const {
  const Chunk* chunk = chunks_[chunk_of(b)];
  return chunk ? chunk->data + b % kChunkBlocks : kNoSpan;
}

}  // namespace mneme
