#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mneme {

/// What generate() gives back.
struct GenerateOutput {
  /// [B * num_return_sequences, prompt + most new tokens] int64 on the inputs' device: the prompt as given, then new
  /// tokens; behind a sequence that ended sooner, pad_token_id.
  at::Tensor sequences;
  std::vector<std::vector<std::int64_t>> new_tokens;    ///< of each sequence, the ending eos included
  std::vector<std::string> finish_reasons;              ///< "stop" | "length" | "time" | "cancelled"
  std::vector<float> sequences_scores;                  ///< beams: log-probability / (new tokens ^ length_penalty)
  std::vector<std::vector<std::int64_t>> beam_indices;  ///< beams: for each new token the row it was chosen for
  std::uint64_t seed = 0;                               ///< draws the same text again

  std::int64_t prompt_tokens = 0;  ///< real tokens of all prompts; of an encoder-decoder, those of both parts
  std::int64_t cached_tokens = 0;  ///< of them, those that the cache already held
  double prefill_ms = 0, decode_ms = 0;
  std::int64_t decode_steps = 0;  ///< forward passes after the prefill
  /// Of them, those that went by a plan of the step, and the plans that were made: one, and one more whenever a
  /// sequence of the batch ends before others. With drafts, hidden states, use_cache false and on other devices there
  /// is none.
  std::int64_t plan_replays = 0, plans_built = 0;

  std::string cache_implementation;  ///< Cache::implementation(), or "none"
  std::int64_t cache_length = 0, cache_bytes = 0, cache_bytes_offloaded = 0;

  at::Tensor prompt_logits;  ///< [B, V] float32 after each prompt, if output_logits
  /// By step, if output_step_logits and output_scores: [rows, V] float32, the rows of `sequences` (beams: those that
  /// run in that step); zero for those that ended before.
  std::vector<at::Tensor> logits = {}, scores = {};
  /// By step and layer, if output_hidden_states: [rows, T, E] float32, the rows as those of `logits`. The layers are
  /// the token vectors, what each layer but the last made of them, and what the last made, behind the norm before the
  /// head. The first step holds the tokens of the prompts that the cache did not, with zeros on the left of shorter
  /// ones; each later step holds one token.
  std::vector<std::vector<at::Tensor>> hidden_states = {};
  std::vector<std::vector<double>> token_logprobs = {};  ///< of each new token, if output_logprobs
  std::int64_t draft_tokens = 0, accepted_tokens = 0;    ///< guessed ahead, and those of them that were right
  float min_gap = 0;  ///< smallest top-1 minus top-2 logit of all choices, if output_logits
};

}  // namespace mneme
