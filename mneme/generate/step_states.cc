#include "mneme/generate/step_states.h"

#include <algorithm>

namespace mneme {

void StepStates::add(std::int64_t sequence, const at::Tensor& states) {
  if (std::ssize(added_) <= sequence) added_.resize(static_cast<std::size_t>(sequence) + 1);
  added_[static_cast<std::size_t>(sequence)].push_back(states.to(at::kCPU));
}

void StepStates::end_step(std::int64_t n_sequences, std::int64_t most) {
  if (added_.empty()) return;
  std::vector<at::Tensor> rows;
  std::int64_t n_tokens = 0;
  for (const std::vector<at::Tensor>& parts : added_) {
    at::Tensor& row = rows.emplace_back();
    if (parts.empty()) continue;
    row = at::cat(parts, 1);
    row = row.narrow(1, row.size(1) - std::min(most, row.size(1)), std::min(most, row.size(1)));
    n_tokens = std::max(n_tokens, row.size(1));
  }
  const at::Tensor& last = added_.back().back();
  at::Tensor step = at::zeros({last.size(0), n_sequences, n_tokens, last.size(2)}, at::kFloat);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].defined()) continue;
    const std::int64_t n = rows[i].size(1);
    step.select(1, static_cast<std::int64_t>(i)).narrow(1, n_tokens - n, n).copy_(rows[i]);
  }
  steps_.push_back(step.unbind(0));
  added_.clear();
}

void StepStates::repeat_interleave(std::int64_t n) {
  for (std::vector<at::Tensor>& layers : steps_) {
    for (at::Tensor& states : layers) states = states.repeat_interleave(n, 0);
  }
}

}  // namespace mneme
