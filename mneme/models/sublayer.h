#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mneme/cache/cache_layer.h"
#include "mneme/models/model.h"
#include "mneme/models/norm.h"
#include "mneme/ops/rope.h"

namespace mneme {

/// What one forward pass hands to each sublayer.
struct Pass {
  ops::Workspace& workspace;
  const TokenBatch& batch;
  std::span<const ops::Rope> ropes;          ///< the model's rotary embeddings
  std::span<const ops::Rope::Table> angles;  ///< theirs for these tokens
  ops::Rows layer_inputs = {};               ///< what LayerEmbeddings make of these tokens
};

/// A part of a layer: attention, a feed-forward network, a recurrence. Constant after loading.
class Sublayer {
 public:
  virtual ~Sublayer() = default;

  /// y = f(x), both [N, E]; y must not be x. `cache` is what the cache holds for this layer.
  virtual void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const = 0;

  /// Bytes of weights.
  virtual std::int64_t n_bytes() const = 0;
};

/// A sublayer in the residual stream: h <- (h + scale * after(f(before(h)))) * stream_scale. A norm that is none
/// changes nothing.
struct Residual {
  Norm before = {};
  std::unique_ptr<const Sublayer> f;
  Norm after = {};
  float scale = 1.0f;
  float stream_scale = 1.0f;
};

}  // namespace mneme
