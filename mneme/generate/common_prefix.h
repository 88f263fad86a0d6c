#pragma once

#include <cstdint>
#include <span>

#include "mneme/cache/cache.h"

namespace mneme {

/// Makes a cache of one sequence, which holds the ids `held`, ready for a text: it goes back to the longest beginning
/// that both have in common and that every layer still knows exactly, all of the text but its last token at most. So
/// generate(text, options, &cache) continues from a cache that is longer, shorter or of another text, and gives what a
/// cold run gives. Returns the number of tokens that the cache then holds.
/// Throws Error(kInvalidArgument) unless the cache holds as many tokens as there are ids, of one sequence.
std::int64_t keep_common_prefix(Cache& cache, std::span<const std::int64_t> held, std::span<const std::int64_t> text);

}  // namespace mneme
