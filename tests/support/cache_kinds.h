#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mneme/cache/cache.h"
#include "tests/support/matrix.h"

namespace mneme::testing {

/// One point of the product of the axes: retentions of the layers × dtype × growth.
struct CacheKind {
  std::vector<LayerShape> layers;
  DType dtype = DType::kFloat32;
  bool fixed = false;  ///< static

  std::string name() const {
    std::string text = fixed ? "static " : "dynamic ";
    text += name_of(dtype);
    for (const LayerShape& layer : layers) text += " [" + layer.retention.name() + "]";
    return text;
  }
  bool limited() const {
    return std::ranges::any_of(layers, [](const LayerShape& layer) { return layer.retention.limited(); });
  }
  /// Tokens at which every layer of limited retention has let something go.
  std::int64_t full_length() const {
    std::int64_t longest = 0;
    for (const LayerShape& layer : layers) {
      const kernels::Visibility& v = layer.retention.visibility();
      longest = std::max({longest, v.window, v.chunk});
    }
    return longest + 5;
  }
  CacheShape shape() const { return {.layers = layers, .dtype = dtype}; }
  Cache make(std::int64_t max_cache_len = 700) const {
    return Cache(shape(), {.max_cache_len = fixed ? std::optional(max_cache_len) : std::nullopt});
  }
};

inline LayerShape layer_of(const Retention& retention, std::int64_t value_dim = 16) {
  return {.retention = retention, .n_heads = 2, .key_dim = 16, .value_dim = value_dim};
}

/// Layers of each retention alone, and one cache of layers that differ in retention and in block size.
inline std::vector<std::vector<LayerShape>> layer_plans() {
  std::vector<std::vector<LayerShape>> plans = {{layer_of(Retention::all())}};
  for (const std::int64_t window : {1, 2, 8, 64, 65, 100}) plans.push_back({layer_of(Retention::last(window))});
  for (const std::int64_t chunk : {8, 64, 70}) plans.push_back({layer_of(Retention::chunk(chunk))});
  plans.push_back({layer_of(Retention::sinks_and_last(4, 8))});
  plans.push_back({layer_of(Retention::sinks_and_last(70, 65))});
  plans.push_back({layer_of(Retention::last(8)), layer_of(Retention::all(), 24), layer_of(Retention::chunk(70)),
                   layer_of(Retention::sinks_and_last(4, 64), 24)});
  return plans;
}

/// The kinds, in float32, that have a layer of limited retention.
inline std::vector<CacheKind> limited_kinds() {
  std::vector<CacheKind> kinds;
  for (const std::vector<LayerShape>& layers : layer_plans()) {
    for (const bool fixed : {false, true}) {
      if (const CacheKind kind{.layers = layers, .fixed = fixed}; kind.limited()) kinds.push_back(kind);
    }
  }
  return kinds;
}

/// Runs a test over every cache kind; a failure names the kind.
template <class Test>
void for_each_kind(const Test& test) {
  for (const std::vector<LayerShape>& layers : layer_plans()) {
    for (const DType dtype : kDTypes) {
      for (const bool fixed : {false, true}) {
        const CacheKind kind{.layers = layers, .dtype = dtype, .fixed = fixed};
        SCOPED_TRACE(kind.name());
        test(kind);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace mneme::testing
