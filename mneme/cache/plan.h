#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mneme/cache/config.h"
#include "mneme/cache/shape.h"
#include "mneme/quant/block_codec.h"

namespace mneme {

/// When a cache takes its memory, how it stores tokens and where.
struct CacheOptions {
  /// Unset: blocks are taken as tokens come (dynamic). Set: memory for this many tokens a sequence is taken once
  /// (static).
  std::optional<std::int64_t> max_cache_len = {};
  /// Static only: sequences to take memory for, at construction. Unset: as many as the first tokens come for, when they
  /// come; only select() and its kin make it more.
  std::optional<std::int64_t> max_batch_size = {};
  /// Full blocks are encoded as `config` says; unset codec options are its backend's defaults.
  bool quantized = false;
  CacheConfig config = {};
  /// Raw keys and values are stored in this dtype. Unset: the model's.
  std::optional<DType> dtype = {};
};

/// What one layer of a cache will be: chosen once, shown by `mneme inspect`, and what the cache is then built from.
/// Codecs and offloading are for keys and values: states are float32 and stay on the device.
struct LayerPlan {
  Retention retention = Retention::all();
  kernels::BlockLayout layout = {};                     ///< of raw blocks; no heads: a layer without attention
  std::shared_ptr<const quant::BlockCodec> codec = {};  ///< of sealed blocks, or none
  std::int64_t residual_blocks = 0;
  bool rotate_values = false;
  bool offloaded = false;
  std::optional<StateShape> state = {};
  std::int64_t n_readers = 0;  ///< layers besides the one that writes them, as LayerShape's

  bool has_attention() const { return layout.n_heads > 0; }
  /// "bfloat16", "int8", "kivi4+2".
  std::string codec_name() const;
  /// Bytes of a block once it is sealed.
  std::int64_t sealed_block_bytes() const;
  /// The same for each of its tokens.
  double bytes_per_token() const;
  /// Whether a block of one layer says the same in the other, and which blocks are sealed: growth and folders apart,
  /// all that was planned.
  bool is_like(const LayerPlan& other) const;
};

/// A cache as its options and a model's shape make it.
struct CachePlan {
  std::vector<LayerPlan> layers;
  std::string offload_device = {};  ///< "disk", "cpu", or empty

  /// "dynamic", "static", "quantized", "offloaded", "offloaded_static", "quantized offloaded static" ..
  std::string implementation = {};
};

/// Throws Error(kInvalidArgument) for options that cannot be, naming what is allowed.
CachePlan plan_cache(const CacheShape& shape, const CacheOptions& options);

/// Where keys and values of a raw block lie. Throws Error(kInvalidArgument) unless all sizes are positive and a block's
/// bytes fit 63 bits.
kernels::BlockLayout raw_layout(DType dtype, std::int64_t n_heads, std::int64_t key_dim, std::int64_t value_dim);

}  // namespace mneme
