#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/base/json.h"

namespace mneme {

/// How many bits a codec spends: what may differ from layer to layer.
struct CodecBits {
  std::optional<std::int64_t> nbits = {};
  std::optional<std::int64_t> nbits_key = {}, nbits_value = {};  ///< kivi; default nbits
};

/// Layers [first, last] take bits of their own.
struct LayerBits {
  std::int64_t first = 0, last = 0;
  CodecBits bits = {};
};

/// `cache_config` of transformers and ours: codec and placement of a cache. Everything is optional; defaults and the
/// values that are allowed depend on the backend (README, "Cache options"), and what a backend does not know is refused
/// by name when a cache is made.
struct CacheConfig {
  std::optional<std::string> backend = {};  ///< "quanto" (default), "hqq", "kivi", "int8", "fp8"
  std::optional<std::int64_t> nbits = {};
  std::optional<std::int64_t> nbits_key = {}, nbits_value = {};
  std::optional<std::int64_t> axis_key = {}, axis_value = {};
  std::optional<std::int64_t> q_group_size = {};
  std::optional<std::int64_t> residual_length = {};  ///< newest tokens in full precision, rounded up to blocks of 64
  std::optional<std::int64_t> sink_length = {};      ///< kivi: first tokens in full precision, at most 64
  std::optional<bool> rotate_values = {};            ///< kivi: values rotated by a Hadamard matrix
  std::vector<LayerBits> layers = {};  ///< JSON: {"0": {"nbits": 8}, "4-7": {"nbits_key": 4, "nbits_value": 2}}

  std::optional<bool> offloading = {};
  std::optional<std::string> offload_device = {};  ///< "cpu" when the model is on a GPU, else "disk"
  std::optional<std::string> offload_folder = {};  ///< of the disk tier; default TMPDIR, else /var/tmp
  /// Layers of limited retention stay where they are. Default: false for dynamic caches, true for static ones.
  std::optional<bool> offload_only_non_sliding = {};
  std::optional<std::int64_t> max_cache_bytes = {};  ///< more memory than this is an Error(kOutOfMemory)

  /// Throws Error(kInvalidArgument) that names an unknown key or a value of the wrong type, and lists what there is.
  static CacheConfig from_json(const Json& json);
};

/// The inverse of CacheConfig::from_json: what is set.
Json to_json(const CacheConfig& config);

/// Whether a config says anything about how tokens are encoded.
bool names_codec(const CacheConfig& config);

}  // namespace mneme
