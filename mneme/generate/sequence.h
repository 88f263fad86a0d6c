#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mneme {

/// A sequence under way.
struct Sequence {
  std::vector<std::int64_t> tokens = {};                     ///< ids of prompt and new ones
  std::int64_t prompt_length = 0;                            ///< of them, those of the prompt
  std::int64_t n_without_ids = 0;                            ///< tokens before them that were given as vectors alone
  std::int64_t prompt = 0;                                   ///< which prompt it continues
  std::int64_t hypothesis = 0;                               ///< which of that prompt's beams or continuations it is
  std::string finish_reason = {};                            ///< empty while it goes on
  std::vector<double> logprobs = {};                         ///< of the new tokens, if they are asked for
  std::vector<std::vector<float>> logits = {}, scores = {};  ///< before and after the processors, the same

  bool finished() const { return !finish_reason.empty(); }
  std::int64_t n_new() const { return std::ssize(tokens) - prompt_length; }
  /// Tokens of the text, and of them those of the prompt, with ids or without.
  std::int64_t length() const { return n_without_ids + std::ssize(tokens); }
  std::int64_t n_prompt() const { return n_without_ids + prompt_length; }
  std::vector<std::int64_t> new_tokens() const { return {tokens.begin() + prompt_length, tokens.end()}; }
};

}  // namespace mneme
