#include "mneme/generate/cache_options.h"

namespace mneme {

CacheOptions cache_options_of(const GenerationSettings& settings) {
  CacheOptions options{.quantized = settings.cache_implementation == "quantized" || names_codec(settings.cache_config),
                       .config = settings.cache_config};
  if (settings.max_cache_len > 0) options.max_cache_len = settings.max_cache_len;
  if (settings.cache_implementation.starts_with("offloaded")) options.config.offloading = true;
  return options;
}

}  // namespace mneme
