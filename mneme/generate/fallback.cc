#include "mneme/generate/fallback.h"

#include <map>

#include "mneme/base/error.h"
#include "mneme/base/log.h"

namespace mneme {

GenerateOutput with_fallback(
    const GenerationSettings& settings, const GenerateOptions& options,
    const std::function<GenerateOutput(const GenerationSettings&, const GenerateOptions&)>& run) {
  if (!options.offload_if_out_of_memory ||
      settings.cache_config.offloading.value_or(settings.cache_implementation.starts_with("offloaded")))
    return run(settings, options);
  GenerationSettings in_memory = settings;  // where to offload is said for the second time
  in_memory.cache_config.offload_folder = std::nullopt;
  in_memory.cache_config.offload_device = std::nullopt;
  in_memory.cache_config.offload_only_non_sliding = std::nullopt;
  std::map<std::int64_t, std::int64_t> streamed, seen;  // tokens of each sequence
  GenerateOptions first = options;
  first.on_token = [&](std::int64_t sequence, std::int64_t id) {
    ++streamed[sequence];
    if (options.on_token) options.on_token(sequence, id);
  };
  try {
    return run(in_memory, first);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    warn(fmt::format("{}; generating again with an offloaded cache", error.what()));
  }
  GenerationSettings offloaded = settings;
  offloaded.cache_config.offloading = true;
  GenerateOptions second = options;
  second.on_token = [&](std::int64_t sequence, std::int64_t id) {
    if (++seen[sequence] > streamed[sequence] && options.on_token) options.on_token(sequence, id);
  };
  return run(offloaded, second);
}

}  // namespace mneme
