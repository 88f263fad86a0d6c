#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"

namespace mneme {

/// What Gemma 2 and 3 share: norms of 1 + weight around each sublayer, embeddings scaled by the root of the hidden
/// size, scores scaled by a number of the config and soft caps on scores and logits, alternating windows. `adjust` may
/// change the attention of each layer.
std::unique_ptr<Model> build_gemma(const ModelConfig& config, const Loader& load,
                                   const std::function<void(AttentionParts&, std::int64_t layer)>& adjust);

/// A number of config.json that may be null, which gives `fallback`. Throws Error(kCorruptData) for one not above 0.
float gemma_number(const ModelConfig& config, const char* key, double fallback);

/// The root of the width of embeddings, which they are multiplied by.
float gemma_embedding_scale(std::int64_t width, DType dtype);

/// How Gemma's norms are stored: GGUF converters have added the one.
NormKind gemma_norm(const Weights& weights);

}  // namespace mneme
