#include "mneme/cache/state_sequence.h"

#include <fmt/format.h>

#include <algorithm>

#include "mneme/kernels/visibility.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;

std::int64_t blocks_of(std::int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

bool holds(const BlockList& list, std::int64_t first, std::int64_t last) {
  if (first >= last) return true;
  if (list.size() < last) return false;
  for (std::int64_t b = first; b < last; ++b) {
    if (!list.at(b)) return false;
  }
  return true;
}

}  // namespace

std::string StateSequence::fault(bool recording) const {
  if (first_kept > computed || computed > length || first_kept > first_recorded || first_recorded > length)
    return fmt::format("of {} tokens has states after {}, kept ones after {} and records from {} on", length, computed,
                       first_kept, first_recorded);
  if (static_cast<bool>(states) != (computed > 0)) return fmt::format("has no states after {} tokens", computed);
  if (!recording) {
    const bool past = kept || snapshots.size() > 0 || inputs.size() > 0 || computed < length;
    return past ? "holds a past that is not recorded" : "";
  }
  if (static_cast<bool>(kept) != (first_kept > 0)) return fmt::format("has no states after {} tokens", first_kept);
  if (computed < length && computed != first_kept) return "has states that are not those it keeps";
  if (!holds(inputs, first_kept / kBlockTokens, first_kept < length ? blocks_of(length) : 0))
    return fmt::format("has not all inputs of its tokens {} to {}", first_kept, length);
  if (!holds(snapshots, first_kept / kBlockTokens + 1, computed / kBlockTokens + 1))
    return fmt::format("has not all states between {} and {} tokens", first_kept, computed);
  return "";
}

StateSequence StateSequence::copied_to(BlockPool& state_pool, BlockPool& input_pool, BlockCopies& copies) const {
  StateSequence copy = *this;
  copy.states = copies.of(states, state_pool);
  copy.kept = copies.of(kept, state_pool);
  copy.snapshots = copies.of(snapshots, [&](std::int64_t) -> BlockPool& { return state_pool; });
  copy.inputs = copies.of(inputs, [&](std::int64_t) -> BlockPool& { return input_pool; });
  return copy;
}

void StateSequence::keep() {
  kept = states;
  first_kept = computed;
  first_recorded = length;
}

void StateSequence::crop(std::int64_t n) {
  const std::int64_t first_block = first_kept / kBlockTokens;
  length -= n;
  if (computed > length) {
    const std::int64_t b = length / kBlockTokens;
    const bool snapshot = b * kBlockTokens > first_kept;
    states = snapshot ? snapshots.at(b) : kept;
    computed = snapshot ? b * kBlockTokens : first_kept;
  }
  keep();
  for (std::int64_t b = first_block; b < snapshots.size(); ++b) snapshots.release(b);
  inputs.truncate(computed == length ? computed / kBlockTokens : blocks_of(length));
  for (std::int64_t b = first_block; b < std::min(computed / kBlockTokens, inputs.size()); ++b) inputs.release(b);
}

}  // namespace mneme
