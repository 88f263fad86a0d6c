#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace mneme {

/// A sequence whose next token is to be chosen.
struct SequenceView {
  std::span<const std::int64_t> tokens = {};  ///< so far, prompt included, padding never
  std::int64_t prompt_length = 0;             ///< of them, those of the prompt; what follows is new
  std::int64_t n_without_ids = 0;             ///< tokens before them of which only vectors are known
  std::span<const std::int64_t> source = {};  ///< what the encoder read; of a causal model, the prompt
  std::int64_t prompt = 0;                    ///< which prompt of the batch it continues
  std::int64_t hypothesis = 0;                ///< which of its beams or continuations

  std::int64_t n_new() const { return std::ssize(tokens) - prompt_length; }
};

/// Changes one sequence's scores [V] in place before a token is chosen; a score of -infinity is a ban. Any callable
/// will do: those of GenerateOptions::logits_processors run behind the library's own and before temperature and what
/// narrows a draw, as in transformers. Called on the generating thread; with beams, scores are log-probabilities.
using LogitsProcessor = std::function<void(std::span<float> scores, const SequenceView& sequence)>;

}  // namespace mneme
