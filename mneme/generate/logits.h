#pragma once

#include <cstdint>
#include <span>

namespace mneme {

/// Throws Error(kFailedPrecondition) for NaN or +infinity among a model's logits: no choice from them means anything.
void check_finite(std::span<const float> logits);

/// The id with the largest score, the lowest of equals; NaN never wins. 0 if nothing is left.
std::int64_t argmax(std::span<const float> scores);

/// The largest score; -infinity if nothing is left.
float largest(std::span<const float> scores);

/// Largest minus second largest score: how clear a greedy choice is. Infinity for fewer than two finite scores.
float top_gap(std::span<const float> scores);

/// log of the sum of exp of all scores, in double precision; -infinity if nothing is left.
double log_sum_exp(std::span<const float> scores);

/// Scores become log-probabilities: s - log_sum_exp(s). Nothing happens if nothing is left.
void log_softmax(std::span<float> scores);

}  // namespace mneme
