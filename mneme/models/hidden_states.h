#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "mneme/models/model.h"

namespace mneme {

/// Memory for the hidden states of one forward pass: hand rows() to TokenBatch::hidden_states.
class HiddenStates {
 public:
  /// Room for n_tokens of each layer, (layers + 1) * n_tokens * E floats on the model's device.
  HiddenStates(const Model& model, std::int64_t n_tokens);

  std::span<const ops::Rows> rows() const noexcept { return rows_; }
  /// [layers + 1, N, E] float32, see TokenBatch::hidden_states; a view.
  const at::Tensor& all() const noexcept { return all_; }

 private:
  at::Tensor all_;
  std::vector<ops::Rows> rows_;
};

}  // namespace mneme
