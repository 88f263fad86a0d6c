#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "mneme/cache/shape.h"
#include "mneme/models/config.h"

namespace mneme {

/// How from_pretrained loads a model of any kind.
struct LoadOptions {
  std::optional<at::ScalarType> dtype =
      {};  ///< at::kFloat | at::kBFloat16 | at::kHalf; unset: as the checkpoint is stored
  at::Device device = at::kCPU;
};

/// The config of a loaded model, with what loading decided. It turns into the CacheShape that caches are made from.
struct LoadedConfig : ModelConfig {
  CacheShape cache_shape;
  operator const CacheShape&() const noexcept { return cache_shape; }  // NOLINT: DynamicCache(model->config())
};

/// The result of one `forward`.
struct ForwardOutput {
  at::Tensor logits = {};  ///< [B, T, V] float32, or the last columns if logits_to_keep was set; zeros for padding
};

}  // namespace mneme
