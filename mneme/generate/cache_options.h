#pragma once

#include "mneme/cache/plan.h"
#include "mneme/generate/config.h"

namespace mneme {

/// The cache that settings ask for. Any `cache_implementation` goes with any `cache_config`: a static one may be
/// quantized, a quantized one offloaded.
CacheOptions cache_options_of(const GenerationSettings& settings);

}  // namespace mneme
