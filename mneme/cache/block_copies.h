#pragma once

#include <unordered_map>

#include "mneme/cache/block_list.h"
#include "mneme/cache/block_pool.h"

namespace mneme {

/// Copies of blocks in another pool, each made once however many lists hold it.
class BlockCopies {
 public:
  /// The copy, or nothing of nothing. A block's copies are all of one pool, of blocks as large as it. Throws
  /// Error(kOutOfMemory) or Error(kIo).
  BlockRef of(const BlockRef& block, BlockPool& pool);

  /// The list with a copy for each block; entry b's comes from pool_of(b).
  template <class PoolOf>
  BlockList of(const BlockList& list, PoolOf&& pool_of) {
    BlockList copy;
    for (std::int64_t b = 0; b < list.size(); ++b) copy.push_back(of(list.at(b), pool_of(b)));
    return copy;
  }

 private:
  std::unordered_map<const Block*, BlockRef> copies_;
};

}  // namespace mneme
