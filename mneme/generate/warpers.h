#pragma once

#include <cstdint>
#include <span>

namespace mneme {

// What narrows or bends a distribution before a token is drawn from it. Each changes scores [V] in place; a score of
// -infinity is a ban. `keep` ids survive any of them, one at least: beam search keeps one more than there are eos, so
// that a beam can go on. All follow transformers, and do nothing where nothing is left to draw.

/// s / temperature. Where that would overflow, scores are taken relative to the largest.
void apply_temperature(std::span<float> scores, double temperature);

/// Bans all but the k largest; ties with the k-th stay. 0: none. (Fan et al. 2018, arXiv:1805.04833)
void keep_top_k(std::span<float> scores, std::int64_t k, std::int64_t keep = 1);

/// Bans the tail: the smallest set of the likeliest ids whose probability reaches p stays.
/// (Holtzman et al. 2019, arXiv:1904.09751)
void keep_top_p(std::span<float> scores, double p, std::int64_t keep = 1);

/// Bans ids less likely than min_p times the likeliest. (Nguyen et al. 2024, arXiv:2407.01082)
void keep_min_p(std::span<float> scores, double min_p, std::int64_t keep = 1);

/// Of the 100 likeliest ids those stay whose terms of the entropy add up to at most top_h times all of it, and the
/// likeliest. (Potraghloo et al. 2025, arXiv:2509.02510)
void keep_top_h(std::span<float> scores, double top_h);

/// Of ids by how near their information is to the entropy, those stay that reach `mass` together.
/// (Meister et al. 2022, arXiv:2202.00666)
void keep_typical(std::span<float> scores, double mass, std::int64_t keep = 1);

/// Bans ids less likely than epsilon. (Hewitt et al. 2022, arXiv:2210.15191)
void cut_epsilon(std::span<float> scores, double epsilon, std::int64_t keep = 1);

/// Bans ids less likely than min(epsilon, sqrt(epsilon) exp(-entropy)). (The same paper.)
void cut_eta(std::span<float> scores, double epsilon, std::int64_t keep = 1);

}  // namespace mneme
