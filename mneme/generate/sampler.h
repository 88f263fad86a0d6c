#pragma once

#include <cstdint>
#include <span>

namespace mneme {

/// A uniform number in [0, 1) that is a function of its keys alone: the same seed draws the same text on every cache,
/// in every batch, in any order of computation.
///
/// stream  which of several continuations of one prompt; step: how many tokens were drawn before.
/// Source: the finalizer of SplitMix64 (Steele et al. 2014), applied to each key in turn.
double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t step);

/// Draws an id from softmax(scores) by inverting the cumulative sum in order of ids, in double precision. Banned ids
/// (-infinity) and NaN are never drawn; if nothing is left, the result is 0.
std::int64_t draw(std::span<const float> scores, double uniform);

}  // namespace mneme
