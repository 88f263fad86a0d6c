#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/generate/causal_lm.h"

namespace mneme {

/// A cache of one sequence and the ids that it holds, as they come from a file.
struct SavedCache {
  Cache cache;
  std::vector<std::int64_t> ids;
};

/// Writes a cache that holds the first of `ids` for this model (Cache::save). Throws Error(kIo).
void save_cache(const std::string& path, const Cache& cache, std::span<const std::int64_t> ids, const CausalLM& model);

/// The cache of a file, if this model made it in this arithmetic (ModelConfig::fingerprint) and it is of the kind that
/// the options name; options that name none take any kind.
/// Throws Error(kInvalidArgument) for another model or kind, or a cache of several sequences, and what Cache::load
/// throws.
SavedCache load_cache(const std::string& path, const CausalLM& model, const GenerateOptions& options);

}  // namespace mneme
