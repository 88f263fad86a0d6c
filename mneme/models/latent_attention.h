#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mneme/cache/shape.h"
#include "mneme/models/config.h"
#include "mneme/models/sublayer.h"

namespace mneme {

/// Sizes of multi-head latent attention, from the config.
struct LatentSizes {
  std::int64_t n_heads, latent, rotated, plain, value;  ///< of a head: rotated and other part of a key, value
  std::optional<std::int64_t> query_latent;             ///< rank of the query's projection, if it has one

  /// Throws Error(kCorruptData) for sizes that are none.
  explicit LatentSizes(const ModelConfig& config);

  /// What a token leaves in the cache: one key that all heads share, whose first part is the value too.
  LayerShape layer_shape() const;
};

/// Attention over a latent (DeepSeek-V2, arXiv:2405.04434, section 2.1), below `prefix`, which ends in a dot. Keys and
/// values of the heads are products of one latent vector a token; these products are taken to the queries and to what
/// comes out instead, in prefill too, so that the cache holds the latent alone.
std::unique_ptr<const Sublayer> latent_attention(const Loader& load, const ModelConfig& config,
                                                 const std::string& prefix);

}  // namespace mneme
