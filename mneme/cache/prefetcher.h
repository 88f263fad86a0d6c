#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mneme/cache/tier.h"

namespace mneme {

/// Brings the blocks of the next layer while one computes and gives those of the last one back meanwhile: two or three
/// layers of a cache are in memory, not all of them.
///
/// Layers are numbered in the order in which a model goes through them, over and over. One cache has one prefetcher;
/// copies of a cache have their own, though they share blocks.
class Prefetcher {
 public:
  Prefetcher(std::shared_ptr<Tier> tier, std::int64_t n_layers);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Takes the memory of lists of up to n ranges a layer: until there are more, nothing is allocated.
  void reserve(std::int64_t n);

  /// An empty list, to be filled with the ranges that the next layer is about to read.
  std::vector<ByteRange>& next_ranges() noexcept;
  /// Layer `index` is about to read next_ranges(): waits until they are there, and starts on what the layer after it
  /// read last time. Throws Error(kIo) if they cannot be read.
  void begin(std::int64_t index);
  /// It has read them; the layer after it keeps what was brought for it.
  void end(std::int64_t index);

  /// Layer `index` is going away: returns once nothing of what it read is brought or released any more, now or later.
  /// Its memory may become something else after that.
  void forget(std::int64_t index) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mneme
