#include "mneme/models/hidden_states.h"

namespace mneme {

HiddenStates::HiddenStates(const Model& model, std::int64_t n_tokens) {
  const std::int64_t n_matrices = model.config().num_hidden_layers + 1, width = model.config().hidden_size;
  all_ = at::empty({n_matrices, n_tokens, width}, at::TensorOptions().dtype(at::kFloat).device(model.device()));
  auto* data = static_cast<float*>(all_.data_ptr());
  for (std::int64_t i = 0; i < n_matrices; ++i) rows_.push_back({data + i * n_tokens * width, n_tokens, width});
}

}  // namespace mneme
