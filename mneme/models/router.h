#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/ops/workspace.h"

namespace mneme {

/// How the logits of a router choose experts and weigh them. The defaults are those of Mixtral.
struct RouterOptions {
  std::int64_t n_experts = 0, n_chosen = 0;
  bool sigmoid = false;         ///< scores are sigmoids of the logits, else their softmax
  bool normalized = true;       ///< the weights of the chosen are divided by their sum
  at::Tensor choice_bias = {};  ///< [n_experts] float32 on the CPU, added to the scores for the choice alone
  std::int64_t n_groups = 1, n_chosen_groups = 1;  ///< only experts of the groups whose two best are best are chosen
  float scale = 1.0f;                              ///< multiplies the weights
  at::Tensor expert_scales = {};  ///< [n_experts] float32 on the CPU, multiply the weights of each expert; or undefined
};

/// Experts of some tokens, the best first; equal ones by their number.
struct Routes {
  std::int32_t* experts = nullptr;  ///< [n, n_chosen] on the host
  float* weights = nullptr;         ///< [n, n_chosen] on the host
};

/// logits [n, n_experts] on the workspace's device. Routes are scratch memory. A token's routes depend on its logits
/// alone. Sources: Fedus et al. 2021, arXiv:2101.03961; DeepSeek-V3, arXiv:2412.19437, section 2.1.2.
Routes route(ops::Workspace& workspace, const RouterOptions& options, const ops::Rows& logits);

}  // namespace mneme
