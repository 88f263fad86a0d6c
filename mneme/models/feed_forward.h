#pragma once

#include <memory>
#include <string>

#include "mneme/models/config.h"
#include "mneme/models/sublayer.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/linear.h"

namespace mneme {

/// y = down(act(gate x) * (up x)); gate and up are one product. Where gate_scale is not 1, act(gate_scale gate x).
std::unique_ptr<const Sublayer> gated_feed_forward(ops::Linear gate_up, ops::Linear down, ops::Activation activation,
                                                   float gate_scale = 1.0f);

/// y = down(act(up x)).
std::unique_ptr<const Sublayer> plain_feed_forward(ops::Linear up, ops::Linear down, ops::Activation activation);

/// gate_proj, up_proj and down_proj of the config's sizes below `prefix`, which ends in a dot; `inner` is another width
/// than intermediate_size.
std::unique_ptr<const Sublayer> standard_feed_forward(const Loader& load, const ModelConfig& config,
                                                      const std::string& prefix, bool bias = false);
std::unique_ptr<const Sublayer> standard_feed_forward(const Loader& load, const ModelConfig& config,
                                                      const std::string& prefix, std::int64_t inner, bool bias);

}  // namespace mneme
