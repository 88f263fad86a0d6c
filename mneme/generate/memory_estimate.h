#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mneme/generate/options.h"
#include "mneme/generate/pretrained.h"

namespace mneme {

/// What is to be loaded and generated.
struct MemoryRequest {
  LoadOptions load = {};
  std::optional<std::int64_t> length = {};  ///< tokens of a sequence, prompt and new; unset: max_position_embeddings
  std::int64_t batch_size = 1;              ///< sequences: prompts times beams or continuations
  GenerateOptions cache = {};               ///< what it says of caches and prefill_chunk_size
};

/// Bytes that a model and one generation take.
struct MemoryEstimate {
  std::int64_t weights = 0;          ///< matrices as linear layers hold them; embeddings stay in the mapped file
  std::int64_t cache = 0;            ///< in memory at most, whole blocks of 64 tokens and states
  std::int64_t cache_offloaded = 0;  ///< on disk, or in the host's memory beside another device
  std::int64_t working = 0;          ///< activations of a prompt's chunk, and logits

  std::int64_t total() const { return weights + cache + working; }
};

/// Reads the headers of a model's files, and loads nothing. For causal models and encoder-decoders (of which sources
/// count as long as texts). Weights come out within some percent, caches at what a prompt of this length takes on its
/// way (a static cache to the byte, others up to three blocks a layer above what they then hold), working memory within
/// a factor of five. Throws what ModelConfig, Weights::open and plan_cache throw, and Error(kInvalidArgument) for a
/// length or a batch below one.
MemoryEstimate estimate_memory(const std::string& path, const MemoryRequest& request = {});

}  // namespace mneme
