#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/cache/retention.h"

namespace mneme {

/// What one attention layer of a model asks of a cache.
struct LayerShape {
  Retention retention = Retention::all();
  std::int64_t n_heads = 0;  ///< key/value heads
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
};

/// What a model asks of a cache: every ModelConfig turns into one.
struct CacheShape {
  std::vector<LayerShape> layers;
  DType dtype = DType::kFloat32;  ///< of keys and values, where no codec is asked for
  at::Device device = at::kCPU;
};

}  // namespace mneme
