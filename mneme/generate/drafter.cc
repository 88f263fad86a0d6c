#include "mneme/generate/drafter.h"

#include <algorithm>

#include "mneme/generate/causal_lm.h"
#include "mneme/generate/draft_model.h"

namespace mneme {
namespace {

constexpr std::int64_t kDefaultWords = 2, kDefaultTokens = 20;  // transformers'
constexpr double kDefaultConfidence = 0.4;

}  // namespace

std::vector<std::int64_t> PromptLookup::draft(const SequenceView& sequence, std::int64_t most) {
  const auto tokens = sequence.tokens;
  const std::int64_t length = std::ssize(tokens);
  for (std::int64_t n = std::min(most_words_, length - 1); n > 0; --n) {
    const auto words = tokens.last(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i + n < length; ++i) {
      if (!std::ranges::equal(words, tokens.subspan(static_cast<std::size_t>(i), words.size()))) continue;
      const auto follows = tokens.subspan(static_cast<std::size_t>(i + n));
      const auto count = std::min(follows.size(), static_cast<std::size_t>(most));
      return {follows.begin(), follows.begin() + static_cast<std::ptrdiff_t>(count)};
    }
  }
  return {};
}

std::unique_ptr<Drafter> make_drafter(const GenerationSettings& settings) {
  const GenerateOptions& o = settings.options;
  if (o.prompt_lookup_num_tokens)
    return std::make_unique<PromptLookup>(o.max_matching_ngram_size.value_or(kDefaultWords));
  if (!o.assistant_model) return nullptr;
  const double confidence = o.assistant_confidence_threshold.value_or(kDefaultConfidence);
  if (o.assistant_tokenizer)
    return std::make_unique<TranslatingDrafter>(o.assistant_model->model(), confidence, settings);
  return std::make_unique<DraftModel>(o.assistant_model->model(), confidence, settings);
}

std::int64_t draft_length(const GenerationSettings& settings) {
  const GenerateOptions& o = settings.options;
  return o.prompt_lookup_num_tokens.value_or(o.num_assistant_tokens.value_or(kDefaultTokens));
}

}  // namespace mneme
