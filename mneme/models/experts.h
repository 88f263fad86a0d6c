#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mneme/models/config.h"
#include "mneme/models/router.h"
#include "mneme/models/sublayer.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/grouped_linear.h"
#include "mneme/ops/linear.h"

namespace mneme {

/// (up + 1) * gate * sigmoid(alpha * gate), gate at most `limit`, up within +- limit (gpt-oss).
struct ClampedSwiglu {
  float alpha = 1.702f, limit = 7.0f;
};

/// A mixture of experts: y = sum over the chosen experts of weight * down(act(gate x) * up x), and what a shared expert
/// adds. Sums go by rank, the best expert first.
struct ExpertsParts {
  RouterOptions routing;
  ops::Linear router = {};
  Norm router_norm = {}, expert_norm = {};  ///< of what the router and what experts read
  ops::GroupedLinear gate_up = {}, down = {};
  ops::Activation activation = ops::Activation::kSilu;
  std::optional<ClampedSwiglu> clamped = {};  ///< instead of the activation
  bool weighs_input = false;                  ///< weights multiply what experts read, not what they give (Llama 4)
  std::unique_ptr<const Sublayer> shared = {};
  ops::Linear shared_gate = {};  ///< [1, E], or none: the shared expert's share is its sigmoid
};

std::unique_ptr<const Sublayer> experts(ExpertsParts parts);

/// Experts whose matrices lie below `prefix` as `gate`, `up` ([inner, E]) and `down`, each under its number
/// ("experts.7.gate_proj.weight") or all in one tensor ("experts.gate_proj.weight", GGUF). The router is `prefix`gate.
struct ExpertNames {
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
};
ExpertsParts standard_experts(const Loader& load, const ModelConfig& config, const std::string& prefix,
                              std::int64_t inner, const RouterOptions& routing, const ExpertNames& names = {});

/// A positive number of experts, and how many of them are chosen, from these keys of the config.
/// Throws Error(kCorruptData) with both numbers if there are fewer than are to be chosen.
RouterOptions router_options(const ModelConfig& config, const char* n_experts_key);

}  // namespace mneme
