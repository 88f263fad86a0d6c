#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/cache/retention.h"
#include "mneme/cache/state_shape.h"

namespace mneme {

/// What one layer of a model asks of a cache: keys and values, states, or both.
struct LayerShape {
  Retention retention = Retention::all();
  std::int64_t n_heads = 0;  ///< key/value heads; none, with a state: a layer without attention
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::optional<StateShape> state = {};
  std::int64_t n_readers = 0;  ///< later layers of the model that read these keys and values and have none of their own

  bool has_attention() const { return n_heads != 0 || !state; }

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

/// What a model asks of a cache: every ModelConfig turns into one.
struct CacheShape {
  std::vector<LayerShape> layers;
  DType dtype = DType::kFloat32;  ///< of keys and values, where no codec is asked for
  at::Device device = at::kCPU;
};

}  // namespace mneme
