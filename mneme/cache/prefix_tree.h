#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "mneme/cache/cache.h"

namespace mneme {

/// The longest length up to `length` to which a crop takes a cache of one sequence back as a cold run would have left
/// it, in every layer; 0 if there is none.
std::int64_t exact_length(const Cache& cache, std::int64_t length);

struct PrefixTreeOptions {
  /// Memory of all blocks that the tree holds, shared ones once; the least recently used entries go first.
  std::int64_t max_bytes = 0;
  /// Set: what has to go moves to an unnamed file in this folder instead, and is read from there when it is asked for.
  std::optional<std::string> spill_folder = {};
  std::int64_t max_spill_bytes = std::int64_t{16} << 30;
};

/// Caches by the token ids that they hold: a prompt that begins like an earlier one starts with what that one computed.
///
/// A radix tree over ids; an entry is a copy of a cache (shared blocks, O(layers)). What is found equals, bit for bit,
/// a cold run over the same ids: the tree goes back to the longest length that every layer still knows exactly. Layers
/// of full attention without a codec serve any length, one open block included; a full window, or blocks whose raw
/// numbers were given up for codes, only lengths near the end of an entry (insert at turns of a chat, and behind a
/// system prompt). States serve the length of an entry, and any length from where its past is recorded
/// (activate_past_recording() before the prompt). Ids are compared one by one; nothing rests on a hash. Thread safe.
class PrefixTree {
 public:
  /// Throws Error(kInvalidArgument) for limits below 1.
  explicit PrefixTree(PrefixTreeOptions options);
  ~PrefixTree();

  struct Hit {
    Cache cache;  ///< of one sequence that holds ids [0, length)
    std::int64_t length;
  };
  /// The longest beginning of `ids` that is known, but for the last id: something is left to compute. Costs
  /// O(ids + layers), and no copy of tokens but those of one open block.
  std::optional<Hit> find(std::span<const std::int64_t> ids);

  /// Remembers one sequence of a cache as what `ids` lead to. False if it alone is more than max_bytes (and nothing can
  /// be spilled). Throws Error(kInvalidArgument) unless the sequence holds as many tokens as there are ids,
  /// Error(kOutOfRange) for a sequence that is not there, Error(kIo) if it cannot be spilled.
  bool insert(std::span<const std::int64_t> ids, const Cache& cache, std::int64_t sequence = 0);

  void clear();
  std::int64_t size() const;
  /// Memory of the blocks held, and bytes that were spilled.
  std::int64_t n_bytes() const;
  std::int64_t n_bytes_spilled() const;

 private:
  struct Entry;
  struct Node;

  Entry* best_below(Node& node, std::int64_t length, std::int64_t& served) const;
  void count(const Cache& cache, int change);
  void make_room();
  void spill(Entry& entry);
  void remove(Entry& entry);

  const PrefixTreeOptions options_;
  mutable std::mutex mutex_;
  std::unique_ptr<Node> root_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::unordered_map<const Block*, std::int64_t> holders_;  // of resident blocks: entries that hold them
  std::int64_t n_bytes_ = 0, n_bytes_spilled_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace mneme
