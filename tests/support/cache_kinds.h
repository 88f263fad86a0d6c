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
  bool fixed = false;      ///< static
  bool quantized = false;  ///< as config says
  CacheConfig config = {};

  std::string name() const {
    std::string text = fixed ? "static " : "dynamic ";
    text += name_of(dtype);
    if (quantized) text += ' ' + plan_cache(shape(), options()).layers.front().codec_name();
    if (config.residual_length) text += " residual " + std::to_string(*config.residual_length);
    if (offloaded()) text += " offloaded";
    for (const LayerShape& layer : layers) text += " [" + layer.retention.name() + "]";
    return text;
  }
  bool offloaded() const { return config.offloading.value_or(false); }
  bool seals() const { return quantized || offloaded(); }
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
  CacheOptions options(std::int64_t max_cache_len = 700) const {
    return {
        .max_cache_len = fixed ? std::optional(max_cache_len) : std::nullopt, .quantized = quantized, .config = config};
  }
  Cache make(std::int64_t max_cache_len = 700) const { return Cache(shape(), options(max_cache_len)); }
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

/// One of each codec, with every way to group.
inline std::vector<CacheConfig> codec_configs() {
  return {{.backend = "int8"},
          {.backend = "fp8"},
          {.backend = "quanto", .nbits = 4, .q_group_size = 32},
          {.backend = "quanto", .nbits = 2, .axis_key = -1, .axis_value = -1, .q_group_size = 16},
          {.backend = "hqq", .nbits = 3, .axis_key = 1, .axis_value = 0, .q_group_size = 16},
          {.backend = "kivi", .nbits_key = 4, .nbits_value = 2},
          {.backend = "kivi", .nbits = 8, .sink_length = 0, .rotate_values = false}};
}

/// Runs a test over every cache kind; a failure names the kind.
template <class Test>
void for_each_kind(const Test& test) {
  const auto run = [&](const CacheKind& kind) {
    if (::testing::Test::HasFatalFailure()) return;
    SCOPED_TRACE(kind.name());
    test(kind);
  };
  for (const std::vector<LayerShape>& layers : layer_plans()) {
    for (const bool fixed : {false, true}) {
      for (const DType dtype : kDTypes) run({.layers = layers, .dtype = dtype, .fixed = fixed});
      run({.layers = layers, .fixed = fixed, .config = {.offloading = true, .offload_only_non_sliding = false}});
    }
  }
  // Codecs, each with another mix of the other axes; the layers of the last plan differ in retention.
  int turn = 0;
  for (CacheConfig config : codec_configs()) {
    for (const std::int64_t residual : {0, 64, 128}) {
      const bool is_fp8 = config.backend == "fp8";
      if (is_fp8 && residual) continue;
      config.residual_length = residual;
      config.offloading = turn % 2 == 1;
      config.offload_only_non_sliding = config.offloading.value() ? std::optional(false) : std::nullopt;
      const std::vector<std::vector<LayerShape>> plans = layer_plans();
      for (const std::size_t plan : {std::size_t{0}, plans.size() - 1, static_cast<std::size_t>(turn) % plans.size()}) {
        run({.layers = plans[plan],
             .dtype = kDTypes[static_cast<std::size_t>(turn) % 3],
             .fixed = turn % 4 >= 2,
             .quantized = true,
             .config = config});
      }
      ++turn;
    }
  }
}

}  // namespace mneme::testing
