#include "mneme/generate/step_plan.h"

#include <numeric>

namespace mneme {

StepPlan::StepPlan(const std::vector<Sequence>& sequences)
    : counts_(sequences.size()), known_lengths_(sequences.size()) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    counts_[i] = sequences[i].finished() ? 0 : 1;
    row_starts_.push_back(row_starts_.back() + counts_[i]);
    known_lengths_[i] = sequences[i].length();
    if (counts_[i] == 1) sequences_.push_back(static_cast<std::int64_t>(i));
  }
  rows_.resize(sequences_.size());
  std::iota(rows_.begin(), rows_.end(), 0);
  ids_.resize(rows_.size());
  positions_.resize(rows_.size());
}

bool StepPlan::fits(const std::vector<Sequence>& sequences) const {
  if (sequences.size() != counts_.size()) return false;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].finished() != (counts_[i] == 0)) return false;
  }
  return true;
}

void StepPlan::set(std::int64_t i, std::int64_t id, std::int64_t position, std::int64_t length) {
  const auto row = static_cast<std::size_t>(row_starts_[static_cast<std::size_t>(i)]);
  ids_[row] = id;
  positions_[row] = position;
  known_lengths_[static_cast<std::size_t>(i)] = length;
}

TokenBatch StepPlan::batch() const noexcept {
  return {.ids = ids_,
          .embeddings = {},
          .positions = positions_,
          .row_starts = row_starts_,
          .known_lengths = known_lengths_};
}

}  // namespace mneme
