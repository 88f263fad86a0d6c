#pragma once

#include <cstdint>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/generate/drafter.h"
#include "mneme/models/model.h"
#include "mneme/text/tokenizer.h"

namespace mneme {

/// A smaller model with the same ids. It chooses as the model will, draws with the same random numbers included, so its
/// guesses are right as often as the two agree; it stops where it is less sure of a token than `confidence`. Its cache
/// keeps what texts have in common. (Leviathan et al. 2023, arXiv:2211.17192; here a draft is accepted if it is what
/// the model draws itself, which keeps the model's distribution and its text.)
class DraftModel final : public Drafter {
 public:
  /// The model must outlive it. Where the settings are cancelled while it reads a prompt, it guesses nothing.
  DraftModel(const Model& model, double confidence, const GenerationSettings& settings);
  std::vector<std::int64_t> draft(const SequenceView& sequence, std::int64_t most) override;

 private:
  const Model& model_;
  double confidence_;
  GenerationSettings settings_;  // without what only the model itself may do
  std::vector<LogitsProcessor> processors_;
  Cache cache_;
  std::vector<std::int64_t> held_;  // what the cache holds
};

/// A smaller model with ids of its own: texts are handed over as text, and its guesses come back as text.
class TranslatingDrafter final : public Drafter {
 public:
  /// The settings name both tokenizers.
  TranslatingDrafter(const Model& model, double confidence, const GenerationSettings& settings);
  std::vector<std::int64_t> draft(const SequenceView& sequence, std::int64_t most) override;

 private:
  const Tokenizer& tokenizer_;
  const Tokenizer& assistant_tokenizer_;
  DraftModel model_;
};

}  // namespace mneme
