#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mneme/cache/state_shape.h"
#include "mneme/models/config.h"
#include "mneme/models/sublayer.h"

namespace mneme {

/// Sizes of Qwen3-Next's linear attention, from the config's keys `linear_..`.
struct GatedDeltaSizes {
  std::int64_t n_key_heads, n_value_heads, key_dim, value_dim, conv_taps;

  /// Throws Error(kCorruptData) for sizes that are none or do not divide.
  explicit GatedDeltaSizes(const ModelConfig& config);

  std::int64_t keys() const { return n_key_heads * key_dim; }
  std::int64_t values() const { return n_value_heads * value_dim; }
  /// Channels of the convolution: queries, keys, values.
  std::int64_t channels() const { return 2 * keys() + values(); }
  /// The convolution's window and the matrices, functions of its inputs and of the two gates of each head.
  StateShape state_shape() const;
};

/// A gated delta net below `prefix` ("..linear_attn."): queries, keys and values go through a short convolution and the
/// gated delta rule; what comes out is normalized head by head and gated.
/// Source: Yang et al. 2024, arXiv:2412.06464.
std::unique_ptr<const Sublayer> gated_delta(const Loader& load, const ModelConfig& config, const std::string& prefix);

}  // namespace mneme
