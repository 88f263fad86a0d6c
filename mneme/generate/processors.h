#pragma once

#include <vector>

#include "mneme/generate/config.h"
#include "mneme/generate/logits_processor.h"
#include "mneme/models/model.h"

namespace mneme {

/// Everything that settings do to scores, in transformers' order; nothing where they ask for nothing:
///   guidance, sequence bias, repetition (encoder's and own), n-grams (own and encoder's), bad words, min_length,
///   min_new_tokens, allowed prefixes, JSON schema, forced bos and eos, invalid values, exponential decay, suppressed
///   tokens (always and at the beginning), the caller's own; when sampling temperature, top-h, top-k, top-p, min-p,
///   typical, epsilon, eta; watermark, renormalization.
/// Settings and model must outlive the processors. Throws Error(kInvalidArgument) for ids outside the vocabulary.
std::vector<LogitsProcessor> make_processors(const GenerationSettings& settings, const Model& model);

/// The same from a vocabulary alone, without guidance.
std::vector<LogitsProcessor> make_processors(const GenerationSettings& settings, std::int64_t vocab_size);

}  // namespace mneme
