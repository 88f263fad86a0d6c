#include "mneme/cache/kv_sequence.h"

#include <fmt/format.h>

#include <algorithm>

namespace mneme {
namespace {

using kernels::kBlockTokens;

std::int64_t blocks_of(std::int64_t tokens) { return tokens / kBlockTokens + (tokens % kBlockTokens != 0); }

/// Blocks that tokens visible under a limited retention lie in at most: the window and its two ragged ends.
std::int64_t window_blocks(const Retention& retention) { return blocks_of(retention.most_past()) + 2; }

}  // namespace

std::int64_t KvStorage::n_sealed_for(std::int64_t i) const {
  return seals() ? std::max<std::int64_t>(0, (i + 1) / kBlockTokens - residual_blocks) : 0;
}

std::int64_t KvStorage::piece(std::int64_t length, std::int64_t n) const {
  if (!piecewise()) return n;
  // The next piece begins with the last slot of a block: its query is the first to see one block more sealed.
  return std::min(n, kBlockTokens - (length + 1) % kBlockTokens);
}

void KvStorage::unseal(const BlockRef& sealed, std::int64_t b, std::byte* raw) const {
  Tier& tier = sealed.pool()->tier();
  if (!codec) return tier.read(raw, device, sealed.data(), layout.block_bytes());
  if (device.is_cpu()) return codec->decode(sealed.data(), b == 0, raw);
  const auto bytes = [](std::int64_t n) { return std::make_unique<std::byte[]>(static_cast<std::size_t>(n)); };
  const auto codes = bytes(sealed.pool()->block_bytes()), decoded = bytes(layout.block_bytes());
  tier.read(codes.get(), at::kCPU, sealed.data(), sealed.pool()->block_bytes());
  codec->decode(codes.get(), b == 0, decoded.get());
  copy_bytes(raw, device, decoded.get(), at::kCPU, layout.block_bytes());
}

BlockCounts KvSequence::peak(const KvStorage& storage, std::int64_t length) {
  const std::int64_t all = blocks_of(length);
  // A piece adds one block before it lets another go.
  const bool whole = storage.n_readers > 0;
  const std::int64_t kept =
      storage.retention.limited() && !whole ? std::min(all, window_blocks(storage.retention) + 1) : all;
  if (!storage.seals()) return {.raw = kept};
  const std::int64_t sealed =
      std::min(kept, std::max<std::int64_t>(0, length / kBlockTokens - storage.residual_blocks));
  return {.raw = whole && storage.codec ? kept : std::min(kept, storage.residual_blocks + 2),
          .sealed = std::max<std::int64_t>(0, sealed - 1),
          .first = std::min<std::int64_t>(1, sealed)};
}

BlockCounts KvSequence::needed(const KvStorage& storage, std::int64_t n, bool recording) const {
  if (n == 0) return {};
  recording = recording || storage.n_readers > 0;
  const std::int64_t after = length_ + n;
  BlockCounts counts{.raw = blocks_of(after) - raw_.size()};
  const BlockCounts most = peak(storage, after);
  const bool keeps_raw = recording && (storage.codec || !storage.seals());
  if (!keeps_raw) {
    std::int64_t held = raw_.size() - std::max(n_sealed(), std::min(raw_.size(), first_held_ / kBlockTokens));
    if (!storage.seals()) held += std::min(blocks_of(storage.retention.sinks()), first_held_ / kBlockTokens);
    counts.raw = std::min(counts.raw, std::max<std::int64_t>(1, most.raw - held));
  }
  if (shares_tail()) ++counts.raw;
  if (storage.seals()) {
    std::int64_t sealed = storage.n_sealed_for(after - 1) - n_sealed();
    if (sealed > 0 && n_sealed() == 0) counts.first = 1, --sealed;
    const std::int64_t held = n_sealed() - std::min(n_sealed(), first_held_ / kBlockTokens);
    counts.sealed = recording ? sealed : std::min(sealed, std::max<std::int64_t>(0, most.sealed + 1 - held));
  }
  return counts;
}

bool KvSequence::shares_tail() const { return length_ % kBlockTokens != 0 && !raw_.owns(raw_.size() - 1); }

void KvSequence::reserve(const KvStorage& storage, std::int64_t length) {
  raw_.reserve(blocks_of(length));
  if (storage.seals()) sealed_.reserve(length / kBlockTokens);
}

std::int64_t KvSequence::n_sealed_at(const KvStorage& storage, std::int64_t i) const {
  std::int64_t n = std::min(storage.n_sealed_for(i), n_sealed());
  while (n < n_sealed() && !raw_.at(n)) ++n;
  return n;
}

std::byte* KvSequence::open_block(const KvStorage& storage) {
  const std::int64_t b = length_ / kBlockTokens;
  BlockPool& pool = *storage.raw_pool;
  while (raw_.size() < b) raw_.push_back(BlockRef());  // sealed and cropped back to
  if (b == raw_.size()) {
    raw_.push_back(pool.take_zeroed());
  } else if (!raw_.at(b)) {  // let go before a crop back to where nothing of it is needed
    raw_.replace(b, pool.take_zeroed());
  } else if (!raw_.owns(b)) {
    raw_.replace(b, pool.take_copy(raw_.at(b)));
  }
  return raw_.at(b).data();
}

std::string KvSequence::fault_of(const KvStorage& storage, const Parts& parts) {
  const std::int64_t n_blocks = blocks_of(parts.length), n_sealed = std::ssize(parts.sealed);
  if (std::ssize(parts.raw) != n_blocks)
    return fmt::format("of {} tokens has {} blocks, it must have {}", parts.length, parts.raw.size(), n_blocks);
  if (n_sealed > (storage.seals() ? parts.length / kBlockTokens : 0))
    return fmt::format("of {} tokens has {} sealed blocks", parts.length, n_sealed);
  if (parts.first_held > storage.retention.first_needed(parts.length))
    return fmt::format("of {} tokens has let go of the first {}", parts.length, parts.first_held);
  const std::int64_t n_sinks = std::min(blocks_of(storage.retention.sinks()), n_blocks);
  const std::int64_t needed =
      storage.retention.first_needed(parts.length);  // a block is, for a token that will be seen
  for (std::int64_t b = 0; b < n_blocks; ++b) {
    if (b >= n_sinks && (needed == parts.length || (b + 1) * kBlockTokens <= needed)) continue;
    const auto i = static_cast<std::size_t>(b);
    if (!(b < n_sealed ? parts.sealed[i] : parts.raw[i])) return fmt::format("lacks block {}", b);
  }
  return {};
}

KvSequence::KvSequence(const KvStorage& storage, Parts parts)
    : length_(parts.length), first_held_(parts.first_held), stale_tail_(parts.stale_tail) {
  if (length_ % kBlockTokens != 0 && parts.raw.back()) parts.raw.back() = storage.raw_pool->take_copy(parts.raw.back());
  for (BlockRef& block : parts.raw) raw_.push_back(std::move(block));
  for (BlockRef& block : parts.sealed) sealed_.push_back(std::move(block));
}

KvSequence KvSequence::copied_to(const KvStorage& storage, BlockCopies& copies) const {
  KvSequence copy;
  copy.raw_ = copies.of(raw_, [&](std::int64_t) -> BlockPool& { return *storage.raw_pool; });
  copy.sealed_ = copies.of(sealed_, [&](std::int64_t b) -> BlockPool& { return storage.pool_of_sealed(b); });
  copy.length_ = length_;
  copy.first_held_ = first_held_;
  copy.stale_tail_ = stale_tail_;
  return copy;
}

void KvSequence::seal_next(const KvStorage& storage, BlockRef sealed, bool recording) {
  const std::int64_t b = n_sealed();
  sealed_.push_back(std::move(sealed));
  if (!recording || !storage.codec) raw_.release(b);
}

void KvSequence::let_go(const KvStorage& storage) {
  if (storage.n_readers > 0) raw_.release_before(n_sealed());
  if (!storage.retention.limited()) return;
  const std::int64_t needed = storage.retention.first_needed(length_);
  const std::int64_t sink_blocks = blocks_of(storage.retention.sinks());
  for (std::int64_t b = std::max(sink_blocks, first_held_ / kBlockTokens); b < needed / kBlockTokens; ++b) {
    raw_.release(b);
    if (b < n_sealed()) sealed_.release(b);
  }
  first_held_ = std::max(first_held_, needed);
}

bool KvSequence::can_crop(const KvStorage& storage, std::int64_t n, bool recording) const {
  if (n == 0 || !storage.retention.limited()) return true;
  const std::int64_t rest = length_ - n, needed = storage.retention.first_needed(rest);
  return !((needed < rest && needed < first_held_) || (!recording && storage.retention.is_full(length_)));
}

std::int64_t KvSequence::exact_length(const KvStorage& storage, std::int64_t length, bool recording) const {
  length = std::min(length, length_);
  if (length < length_ && !can_crop(storage, length_ - length, recording)) return 0;
  if (!storage.codec) return length;
  // Codes must not stand where raw numbers would: back from `length`, none is missing.
  const std::int64_t least = storage.retention.limited() ? storage.retention.first_needed(length) / kBlockTokens : 0;
  for (std::int64_t b = std::max(least, storage.n_sealed_for(length - 1)); b < std::min(n_sealed(), blocks_of(length));
       ++b) {
    if (!raw_.at(b)) return 0;
  }
  return length;
}

std::int64_t KvSequence::needed_to_crop(const KvStorage&, std::int64_t n) const {
  const std::int64_t rest = length_ - n, b = rest / kBlockTokens;
  return n > 0 && rest % kBlockTokens != 0 && b < n_sealed() && sealed_.at(b) && !raw_.at(b) ? 1 : 0;
}

void KvSequence::crop(const KvStorage& storage, std::int64_t n) {
  const std::int64_t rest = length_ - n, open = rest / kBlockTokens;
  if (needed_to_crop(storage, n)) {
    BlockRef block = storage.raw_pool->take();
    storage.unseal(sealed_.at(open), open, block.data());
    raw_.replace(open, std::move(block));
  }
  length_ = rest;
  first_held_ = std::min(first_held_, length_);
  raw_.truncate(blocks_of(length_));
  stale_tail_ = stale_tail_ || (n > 0 && length_ % kBlockTokens != 0);
  if (storage.seals()) {
    // Back to raw numbers where they were recorded; codes are all that is left of the others.
    std::int64_t n_sealed_now = std::min(n_sealed(), open);
    const std::int64_t by_rule = storage.n_sealed_for(length_ - 1);
    while (n_sealed_now > by_rule && raw_.at(n_sealed_now - 1)) --n_sealed_now;
    sealed_.truncate(n_sealed_now);
    raw_.release_before(n_sealed_now);
  }
  let_go(storage);
}

}  // namespace mneme
