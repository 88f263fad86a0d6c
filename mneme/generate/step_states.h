#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace mneme {

/// Hidden states of a generation, step by step: of the prompts, then of one token of each sequence at a time.
class StepStates {
 public:
  /// Tokens that a pass has read of a sequence: [layers + 1, n, E] on any device.
  void add(std::int64_t sequence, const at::Tensor& states);
  /// What was added since the last step is one: the newest `most` tokens of each of n sequences, zeros on the left of
  /// those with fewer. Nothing happens where nothing was added.
  void end_step(std::int64_t n_sequences, std::int64_t most);
  /// Each sequence becomes n in a row.
  void repeat_interleave(std::int64_t n);
  /// By step and layer [sequences, tokens, E] float32 on the CPU.
  std::vector<std::vector<at::Tensor>> take() { return std::exchange(steps_, {}); }

 private:
  std::vector<std::vector<at::Tensor>> added_;  // by sequence
  std::vector<std::vector<at::Tensor>> steps_;
};

}  // namespace mneme
