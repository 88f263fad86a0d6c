#include "mneme/cache/block_copies.h"

namespace mneme {

BlockRef BlockCopies::of(const BlockRef& block, BlockPool& pool) {
  if (!block) return {};
  BlockRef& copy = copies_[block.get()];
  if (!copy) copy = pool.take_copy(block);
  return copy;
}

}  // namespace mneme
