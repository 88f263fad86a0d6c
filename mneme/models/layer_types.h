#pragma once

#include "mneme/cache/retention.h"
#include "mneme/models/config.h"
#include "mneme/models/config_keys.h"

namespace mneme {

/// Sets layer_types, sliding_window and attention_chunk_size. Layer types are listed in the file, or follow the pattern
/// of the model type: every n-th layer is full (Gemma, Qwen3-Next), layers without RoPE are full (Llama 4) or slide
/// (SmolLM3), some are listed as full (LFM2), or, with a window, the layers from `max_window_layers` on slide.
/// Throws Error(kCorruptData) for lists of another length and layers without their window or chunk, Error(kUnsupported)
/// for a layer type that is not known.
void plan_layers(const ConfigKeys& keys, ModelConfig& config);

/// For each layer whether it rotates queries and keys: `no_rope_layers` (where 1 means that it does), or all layers but
/// every `no_rope_layer_interval`-th. Throws Error(kCorruptData) for another number of layers.
std::vector<bool> layers_with_rope(const ConfigKeys& keys, std::int64_t n_layers);
/// The same from a config that has been read.
std::vector<bool> layers_with_rope(const ModelConfig& config);

/// What the attention of layer i keeps.
Retention retention_of(const ModelConfig& config, std::size_t i);

}  // namespace mneme
