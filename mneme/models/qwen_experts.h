#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mneme/models/sublayer.h"

namespace mneme {

/// The feed-forward part of layer i of Qwen's mixtures: experts below `prefix` ("..mlp.") in every
/// `decoder_sparse_step`-th layer that `mlp_only_layers` does not list, with a gated shared expert where the config has
/// one; a plain one in the others.
std::unique_ptr<const Sublayer> qwen_feed_forward(const Loader& load, const ModelConfig& config, std::int64_t i,
                                                  const std::string& prefix);

}  // namespace mneme
