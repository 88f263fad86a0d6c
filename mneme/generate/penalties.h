#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mneme/generate/options.h"

namespace mneme {

// What makes ids likelier, less likely or impossible, whether a token is then drawn or the best one taken. Each changes
// scores [V] in place as transformers does. Ids outside the vocabulary are passed over: a model may know more than its
// head can say.

using Ids = std::span<const std::int64_t>;

/// s < 0 ? s * penalty : s / penalty for every id that occurs in `tokens`, once. (Keskar et al. 2019, arXiv:1909.05858)
void penalize_repetition(std::span<float> scores, Ids tokens, double penalty);

void ban(std::span<float> scores, Ids ids);

/// Bans every id outside of `ids`, which score 0.
void force(std::span<float> scores, Ids ids);

/// Bans every id but these. Where all of them were banned before, they score 0 if `force_if_banned`.
void allow_only(std::span<float> scores, Ids ids, bool force_if_banned);

/// Bans what would end an n-gram that occurs in `text` already. `tokens` are what it would end; both may be one text.
void ban_ngrams(std::span<float> scores, Ids tokens, Ids text, std::int64_t n);

/// Adds each bias to the last id of its sequence, where the ids before it stand at the end of `tokens`.
void bias_sequences(std::span<float> scores, Ids tokens, std::span<const SequenceBias> biases);

/// Adds |s| (factor^n - 1) to the score of each of these ids, unless it is infinite. (transformers'
/// exponential_decay_length_penalty, n tokens after its start)
void favour(std::span<float> scores, Ids ids, double factor, std::int64_t n);

/// NaN becomes 0, infinities the largest numbers of float.
void remove_invalid(std::span<float> scores);

}  // namespace mneme
