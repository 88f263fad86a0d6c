#pragma once

#include <cstdint>
#include <vector>

#include "mneme/models/config.h"
#include "mneme/ops/rope.h"

namespace mneme {

/// The rotation of heads of `head_dim`. Throws Error(kUnsupported) for an unknown type.
ops::Rope rope_of(const RopeConfig& rope, std::int64_t head_dim, std::int64_t max_position_embeddings);

/// The rotations of a model: of full attention layers, and of sliding ones where that is another.
std::vector<ops::Rope> ropes_of(const ModelConfig& config);
/// Which of them layer i uses.
std::size_t rope_of_layer(const ModelConfig& config, std::int64_t i);

}  // namespace mneme
