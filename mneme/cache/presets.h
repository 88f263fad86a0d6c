#pragma once

#include "mneme/cache/cache.h"

namespace mneme {

/// A cache that grows with its tokens: the default. Layers of limited retention stop growing at their window.
struct DynamicCacheOptions {
  std::optional<std::int64_t> max_cache_bytes = {};  ///< see CacheOptions
  std::optional<DType> dtype = {};
};
class DynamicCache : public Cache {
 public:
  explicit DynamicCache(const CacheShape& shape, const DynamicCacheOptions& options = {})
      : Cache(shape, {.max_cache_bytes = options.max_cache_bytes, .dtype = options.dtype}) {}
};

/// A cache that takes memory for `max_cache_len` tokens a sequence once, and refuses more.
struct StaticCacheOptions {
  std::int64_t max_cache_len = 0;
  std::optional<std::int64_t> max_batch_size =
      {};  ///< set: memory is taken at construction; unset: with the first tokens
  std::optional<std::int64_t> max_cache_bytes = {};
  std::optional<DType> dtype = {};
};
class StaticCache : public Cache {
 public:
  StaticCache(const CacheShape& shape, const StaticCacheOptions& options)
      : Cache(shape, {.max_cache_len = options.max_cache_len,
                      .max_batch_size = options.max_batch_size,
                      .max_cache_bytes = options.max_cache_bytes,
                      .dtype = options.dtype}) {}
};

}  // namespace mneme
