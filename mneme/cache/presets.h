#pragma once

#include <utility>

#include "mneme/cache/cache.h"

namespace mneme {

/// A cache that grows with its tokens: the default. Layers of limited retention stop growing at their window.
struct DynamicCacheOptions {
  bool offloading = false;                         ///< full blocks go to `offload_device`
  std::optional<std::string> offload_device = {};  ///< see CacheConfig, as the other options
  std::optional<std::string> offload_folder = {};
  std::optional<bool> offload_only_non_sliding = {};
  std::optional<std::int64_t> max_cache_bytes = {};
  std::optional<DType> dtype = {};
};
class DynamicCache : public Cache {
 public:
  explicit DynamicCache(const CacheShape& shape, const DynamicCacheOptions& options = {})
      : Cache(shape, {.config = {.offloading = options.offloading,
                                 .offload_device = options.offload_device,
                                 .offload_folder = options.offload_folder,
                                 .offload_only_non_sliding = options.offload_only_non_sliding,
                                 .max_cache_bytes = options.max_cache_bytes},
                      .dtype = options.dtype}) {}
};

/// A cache that takes memory for `max_cache_len` tokens a sequence once, and refuses more.
struct StaticCacheOptions {
  std::int64_t max_cache_len = 0;
  /// Set: memory is taken at construction; unset: with the first tokens.
  std::optional<std::int64_t> max_batch_size = {};
  bool offloading = false;
  std::optional<std::string> offload_device = {};
  std::optional<std::string> offload_folder = {};
  std::optional<bool> offload_only_non_sliding = {};
  std::optional<std::int64_t> max_cache_bytes = {};
  std::optional<DType> dtype = {};
};
class StaticCache : public Cache {
 public:
  StaticCache(const CacheShape& shape, const StaticCacheOptions& options)
      : Cache(shape, {.max_cache_len = options.max_cache_len,
                      .max_batch_size = options.max_batch_size,
                      .config = {.offloading = options.offloading,
                                 .offload_device = options.offload_device,
                                 .offload_folder = options.offload_folder,
                                 .offload_only_non_sliding = options.offload_only_non_sliding,
                                 .max_cache_bytes = options.max_cache_bytes},
                      .dtype = options.dtype}) {}
};

/// A cache whose full blocks are encoded, all but the newest tokens. `config` may ask for offloading too, and
/// `max_cache_len` makes it static.
class QuantizedCache : public Cache {
 public:
  explicit QuantizedCache(const CacheShape& shape, CacheConfig config = {},
                          std::optional<std::int64_t> max_cache_len = {})
      : Cache(shape, {.max_cache_len = max_cache_len, .quantized = true, .config = std::move(config)}) {}
};

}  // namespace mneme
