#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "mneme/cache/shape.h"
#include "mneme/models/config.h"
#include "mneme/models/registry.h"

namespace mneme {

/// How from_pretrained loads a model of any kind.
struct LoadOptions {
  /// at::kFloat | at::kBFloat16 | at::kHalf: all weights in this dtype; at::kChar: linear layers in int8, a scale for
  /// each 32 weights; unset: as the checkpoint is stored, the integers of a GGUF file too.
  std::optional<at::ScalarType> dtype = {};
  at::Device device = at::kCPU;
};

/// What a dtype asks of a model. Throws Error(kUnsupported) for any other type.
Arithmetic arithmetic_of(std::optional<at::ScalarType> dtype);

/// The config of a loaded model, with what loading decided. It turns into the CacheShape that caches are made from.
struct LoadedConfig : ModelConfig {
  CacheShape cache_shape;
  operator const CacheShape&() const noexcept { return cache_shape; }  // NOLINT: DynamicCache(model->config())
};

/// The result of one `forward`.
struct ForwardOutput {
  at::Tensor logits = {};  ///< [B, T, V] float32, or the last columns if logits_to_keep was set; zeros for padding
  /// If output_hidden_states: [B, T, E] float32 of the token vectors, of what each layer but the last makes of them,
  /// and of what the last makes, behind the norm before the head; zeros for padding.
  std::vector<at::Tensor> hidden_states = {};
};

}  // namespace mneme
