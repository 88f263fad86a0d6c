#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/generate/logits_processor.h"
#include "mneme/models/model.h"

namespace mneme {

/// Classifier-free guidance: away from what the model would say after another prompt. (Sanchez et al. 2023,
/// arXiv:2306.17806)
///
/// log p = scale * (log p_cond - log p_uncond) + log p_uncond, where the unconditional text is the negative prompt (or
/// the prompt's last token) and the new tokens. One cache for each sequence; where beams change places it is filled
/// again.
class Guidance {
 public:
  /// negative_prompts: one for each prompt, or none. The model must outlive this. Throws Error(kInvalidArgument) for an
  /// empty one and for ids outside the vocabulary.
  Guidance(const Model& model, double scale, std::vector<std::vector<std::int64_t>> negative_prompts);

  void apply(std::span<float> scores, const SequenceView& sequence);

 private:
  struct Text {
    std::vector<std::int64_t> tokens;  // what the cache holds
    std::optional<Cache> cache;
  };

  std::vector<float> unconditional(const SequenceView& sequence);

  const Model& model_;
  double scale_;
  std::vector<std::vector<std::int64_t>> negative_prompts_;
  std::map<std::pair<std::int64_t, std::int64_t>, Text> texts_;  // by prompt and hypothesis
};

}  // namespace mneme
