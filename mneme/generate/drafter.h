#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mneme/generate/config.h"
#include "mneme/generate/logits_processor.h"

namespace mneme {

/// Guesses what follows a text.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// At most `most` ids that may follow the sequence's tokens; none where nothing is likely. A wrong one costs time
  /// only.
  virtual std::vector<std::int64_t> draft(const SequenceView& sequence, std::int64_t most) = 0;
};

/// What followed the last occurrence of the last words: the longest match of at most max_matching_ngram_size ids, the
/// first place of equals. (Saxena 2023, prompt lookup decoding)
class PromptLookup final : public Drafter {
 public:
  explicit PromptLookup(std::int64_t max_matching_ngram_size) : most_words_(max_matching_ngram_size) {}
  std::vector<std::int64_t> draft(const SequenceView& sequence, std::int64_t most) override;

 private:
  std::int64_t most_words_;
};

/// The drafter that settings ask for, or null. Settings must outlive it.
std::unique_ptr<Drafter> make_drafter(const GenerationSettings& settings);

/// How many tokens it is asked for at a time.
std::int64_t draft_length(const GenerationSettings& settings);

}  // namespace mneme
