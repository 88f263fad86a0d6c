#pragma once

#include <cstdint>
#include <string>

#include "mneme/cache/block_copies.h"
#include "mneme/cache/block_list.h"
#include "mneme/cache/block_pool.h"

namespace mneme {

/// The states of one sequence in one layer, and what is recorded to take them back.
struct StateSequence {
  BlockRef states;            ///< after `computed` tokens; none before the first
  std::int64_t length = 0;    ///< tokens appended and not cropped
  std::int64_t computed = 0;  ///< behind `length` after a crop, until the inputs between are replayed

  // While recording: states after first_kept tokens, and all inputs from there on.
  BlockRef kept;
  std::int64_t first_kept = 0;
  std::int64_t first_recorded = 0;  ///< a crop goes no further back; behind first_kept until that much is replayed
  BlockList snapshots;              ///< entry b: the states after 64 b tokens, where that is behind first_kept
  BlockList inputs;                 ///< entry b: inputs of tokens 64 b .. 64 b + 63

  /// Why these parts cannot be a sequence, or nothing.
  std::string fault(bool recording) const;

  /// The same sequence in blocks of other pools.
  StateSequence copied_to(BlockPool& state_pool, BlockPool& input_pool, BlockCopies& copies) const;

  /// Makes the present what a crop goes back to if it goes back all the way.
  void keep();
  /// Back to the states kept last before `n` tokens less; lets go of what was recorded but for the inputs between.
  /// While recording only.
  void crop(std::int64_t n);
};

}  // namespace mneme
