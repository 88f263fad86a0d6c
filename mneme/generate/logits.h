#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mneme/generate/config.h"

namespace mneme {

/// Changes one sequence's scores [V] in place before a token is chosen, in transformers' order: repetition penalty,
/// minimum of new tokens, and, when sampling, temperature, top-k, top-p, min-p. A score of -infinity is a ban.
///
/// tokens  the sequence so far, prompt included; n_new of them are new
void process_logits(std::span<float> scores, std::span<const std::int64_t> tokens, std::int64_t n_new,
                    const GenerationSettings& settings);

/// s < 0 ? s * penalty : s / penalty for every id that occurs in `tokens`, once. (Keskar et al. 2019, arXiv:1909.05858)
void penalize_repetition(std::span<float> scores, std::span<const std::int64_t> tokens, double penalty);

/// s / temperature. Tiny temperatures cannot overflow: scores are taken relative to the largest.
void apply_temperature(std::span<float> scores, double temperature);

/// Bans all but the k largest; ties with the k-th stay, as in transformers. (Fan et al. 2018, arXiv:1805.04833)
void keep_top_k(std::span<float> scores, std::int64_t k);

/// Bans the tail: the smallest set of the likeliest ids whose probability reaches p stays, one id at least.
/// (Holtzman et al. 2019, arXiv:1904.09751)
void keep_top_p(std::span<float> scores, double p);

/// Bans ids less likely than min_p times the likeliest. (Nguyen et al. 2024, arXiv:2407.01082)
void keep_min_p(std::span<float> scores, double min_p);

/// Throws Error(kFailedPrecondition) for NaN or +infinity among a model's logits: no choice from them means anything.
void check_finite(std::span<const float> logits);

/// The id with the largest score, the lowest of equals; NaN never wins. 0 if nothing is left.
std::int64_t argmax(std::span<const float> scores);

/// Largest minus second largest score: how clear a greedy choice is. Infinity for fewer than two finite scores.
float top_gap(std::span<const float> scores);

}  // namespace mneme
