#include <algorithm>
#include <iterator>

#include "mneme/cache/kv_layer.h"

// Which sequences a layer holds, and where their blocks lie.
namespace mneme {

void KvLayer::select(std::span<const std::int64_t> indices) {
  std::vector<KvSequence> selected;
  selected.reserve(indices.size());
  for (const std::int64_t i : indices) selected.push_back(sequences_[static_cast<std::size_t>(i)]);
  sequences_ = std::move(selected);
}

void KvLayer::add(KvLayer other) {
  if (storage_.adopted_pools.empty()) storage_.adopted_pools = other.storage_.adopted_pools;
  std::ranges::move(other.sequences_, std::back_inserter(sequences_));
}

void KvLayer::move_to(const KvStorage& storage) {
  BlockCopies copies;
  std::vector<KvSequence> moved;
  moved.reserve(sequences_.size());
  for (const KvSequence& s : sequences_) moved.push_back(s.copied_to(storage, copies));
  sequences_ = std::move(moved);  // before their pools
  storage_ = storage;
}

}  // namespace mneme
