#include "mneme/cache/prefix_tree.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "mneme/base/error.h"

namespace mneme {

struct PrefixTree::Entry {
  Cache cache;
  std::vector<std::int64_t> ids;
  std::uint64_t used;
  std::int64_t spilled_bytes = 0;
};

/// Edges are runs of ids, none the beginning of another's sibling.
struct PrefixTree::Node {
  std::vector<std::int64_t> run;  // from the parent
  std::map<std::int64_t, std::unique_ptr<Node>> children;
  Entry* entry = nullptr;

  /// The node at the end of ids, made if it is not there.
  Node& at(std::span<const std::int64_t> ids) {
    if (ids.empty()) return *this;
    std::unique_ptr<Node>& child = children[ids.front()];
    if (!child) {
      child = std::make_unique<Node>();
      child->run.assign(ids.begin(), ids.end());
      return *child;
    }
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(child->run, ids).in2 - ids.begin());
    if (common < child->run.size()) {  // the edge forks here
      auto fork = std::make_unique<Node>();
      fork->run.assign(child->run.begin(), child->run.begin() + static_cast<std::ptrdiff_t>(common));
      child->run.erase(child->run.begin(), child->run.begin() + static_cast<std::ptrdiff_t>(common));
      const std::int64_t next = child->run.front();
      fork->children[next] = std::move(child);
      child = std::move(fork);
    }
    return child->at(ids.subspan(common));
  }

  /// Forgets the entry at the end of ids and the edges that lead to nothing any more.
  void forget(std::span<const std::int64_t> ids) {
    if (ids.empty()) {
      entry = nullptr;
      return;
    }
    const auto child = children.find(ids.front());
    child->second->forget(ids.subspan(child->second->run.size()));
    if (!child->second->entry && child->second->children.empty()) children.erase(child);
  }
};

std::int64_t exact_length(const Cache& cache, std::int64_t length) {
  if (cache.n_sequences() == 0) return 0;
  for (std::int64_t before = -1; before != length;) {
    before = length;
    for (const CacheLayer& layer : cache.layers()) length = layer.exact_length(0, length);
  }
  return length;
}

PrefixTree::PrefixTree(PrefixTreeOptions options) : options_(std::move(options)), root_(std::make_unique<Node>()) {
  check(options_.max_bytes > 0, ErrorKind::kInvalidArgument, "a prefix tree of max_bytes = {} holds nothing",
        options_.max_bytes);
  check(options_.max_spill_bytes > 0, ErrorKind::kInvalidArgument, "max_spill_bytes must be above 0, it is {}",
        options_.max_spill_bytes);
}

PrefixTree::~PrefixTree() = default;

std::optional<PrefixTree::Hit> PrefixTree::find(std::span<const std::int64_t> ids) {
  const std::lock_guard lock(mutex_);
  if (ids.empty()) return std::nullopt;
  const std::int64_t most = std::ssize(ids) - 1;
  Entry* best = nullptr;
  std::int64_t length = 0;
  Node* node = root_.get();
  for (std::size_t depth = 0;;) {
    // Entries that end on the way, and, where the ways part, those that go on differently.
    if (node->entry) {
      const std::int64_t served = exact_length(node->entry->cache, std::min(most, static_cast<std::int64_t>(depth)));
      if (served > length) best = node->entry, length = served;
    }
    const auto child = depth < ids.size() ? node->children.find(ids[depth]) : node->children.end();
    if (child == node->children.end()) {
      std::int64_t served = length;
      if (Entry* entry = best_below(*node, std::min(most, static_cast<std::int64_t>(depth)), served))
        best = entry, length = served;
      break;
    }
    const auto rest = ids.subspan(depth);
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(child->second->run, rest).in2 - rest.begin());
    depth += common;
    if (common < child->second->run.size()) {
      std::int64_t served = length;
      if (Entry* entry = best_below(*child->second, std::min(most, static_cast<std::int64_t>(depth)), served))
        best = entry, length = served;
      break;
    }
    node = child->second.get();
  }
  if (!best || length == 0) return std::nullopt;
  best->used = ++clock_;
  Hit hit{.cache = best->cache.copy(), .length = length};
  hit.cache.crop(length - hit.cache.seq_length());
  return hit;
}

/// An entry below the node that serves more than `served` of the first `length` tokens.
PrefixTree::Entry* PrefixTree::best_below(Node& node, std::int64_t length, std::int64_t& served) const {
  Entry* best = nullptr;
  if (node.entry) {
    const std::int64_t exact = exact_length(node.entry->cache, length);
    if (exact > served) best = node.entry, served = exact;
  }
  for (auto& [id, child] : node.children) {
    if (served == length) break;
    if (Entry* entry = best_below(*child, length, served)) best = entry;
  }
  return best;
}

bool PrefixTree::insert(std::span<const std::int64_t> ids, const Cache& cache, std::int64_t sequence) {
  const std::lock_guard lock(mutex_);
  const std::vector<std::int64_t> lengths = cache.lengths();
  check(sequence >= 0 && sequence < std::ssize(lengths), ErrorKind::kOutOfRange,
        "sequence {} of a cache that holds {} is not there", sequence, lengths.size());
  check(lengths[static_cast<std::size_t>(sequence)] == std::ssize(ids), ErrorKind::kInvalidArgument,
        "{} ids were given for a sequence of {} tokens", ids.size(), lengths[static_cast<std::size_t>(sequence)]);
  if (ids.empty()) return false;
  Node& node = root_->at(ids);
  if (node.entry) {
    node.entry->used = ++clock_;
    return true;
  }
  Cache copy = cache.copy();
  copy.select({sequence});
  count(copy, 1);
  entries_.push_back(
      std::make_unique<Entry>(Entry{.cache = std::move(copy), .ids = {ids.begin(), ids.end()}, .used = ++clock_}));
  const Entry* added = node.entry = entries_.back().get();
  make_room();
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry.get() == added; });
}

/// Adds a cache's resident blocks to those held, or takes them away.
void PrefixTree::count(const Cache& cache, int change) {
  for (const CacheLayer& layer : cache.layers()) {
    layer.each_block([&](const BlockRef& block) {
      const BlockPool& pool = *block.pool();
      if (!pool.tier().resident()) return;
      std::int64_t& holders = holders_[block.get()];
      if (change > 0 ? holders++ == 0 : --holders == 0) n_bytes_ += change * pool.block_bytes();
      if (holders == 0) holders_.erase(block.get());
    });
  }
}

void PrefixTree::make_room() {
  const auto oldest = [&](auto&& wanted) -> Entry* {
    Entry* result = nullptr;
    for (const auto& entry : entries_) {
      if (wanted(*entry) && (!result || entry->used < result->used)) result = entry.get();
    }
    return result;
  };
  while (n_bytes_ > options_.max_bytes) {
    Entry* const entry = oldest([](const Entry& e) { return e.spilled_bytes == 0; });
    if (entry && options_.spill_folder) {
      spill(*entry);
    } else if (Entry* const any = entry ? entry : oldest([](const Entry&) { return true; })) {
      remove(*any);
    } else {
      return;
    }
  }
  while (n_bytes_spilled_ > options_.max_spill_bytes)
    remove(*oldest([](const Entry& e) { return e.spilled_bytes > 0; }));
}

/// The entry becomes what is read from a file that has lost its name.
void PrefixTree::spill(Entry& entry) {
  const std::string path = *options_.spill_folder + "/mneme-prefix-" + std::to_string(::getpid()) + "-" +
                           std::to_string(reinterpret_cast<std::uintptr_t>(&entry));
  entry.cache.save(path);
  Cache loaded = Cache::load(path, entry.cache.shape());
  entry.spilled_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  std::filesystem::remove(path);
  count(entry.cache, -1);
  entry.cache = std::move(loaded);
  count(entry.cache, 1);
  n_bytes_spilled_ += entry.spilled_bytes;
}

void PrefixTree::remove(Entry& entry) {
  count(entry.cache, -1);
  n_bytes_spilled_ -= entry.spilled_bytes;
  root_->forget(entry.ids);
  std::erase_if(entries_, [&](const auto& e) { return e.get() == &entry; });
}

void PrefixTree::clear() {
  const std::lock_guard lock(mutex_);
  root_ = std::make_unique<Node>();
  entries_.clear();
  holders_.clear();
  n_bytes_ = n_bytes_spilled_ = 0;
}

std::int64_t PrefixTree::size() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(entries_);
}

std::int64_t PrefixTree::n_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_bytes_;
}

std::int64_t PrefixTree::n_bytes_spilled() const {
  const std::lock_guard lock(mutex_);
  return n_bytes_spilled_;
}

}  // namespace mneme
