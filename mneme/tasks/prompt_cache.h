#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/generate/saved_cache.h"

namespace mneme::tasks {

/// The cache that a file keeps from one call of generate to the next.
class PromptCache {
 public:
  /// Takes what the file holds of a prompt; makes an empty cache, as the options ask, if there is no file. The options
  /// lose what says how a cache is made. Throws what load_cache throws, Error(kInvalidArgument) for more than one
  /// prompt or continuation and a static cache that is too small, Error(kIo) for a file that cannot be written.
  PromptCache(std::string path, const CausalLM& model, const std::vector<std::vector<std::int64_t>>& prompts,
              GenerateOptions& options);

  Cache* cache() noexcept { return &*cache_; }
  /// Writes the cache with all ids that it holds now; warns if it cannot.
  void save(const GenerateOutput& output);

 private:
  std::string path_;
  const CausalLM& model_;
  std::vector<std::int64_t> prompt_;
  std::optional<Cache> cache_;
};

}  // namespace mneme::tasks
