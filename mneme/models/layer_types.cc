#include "mneme/models/layer_types.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

struct Name {
  std::string_view name;
  LayerType type;
  const char* key = nullptr;  ///< which only model types have that know such layers
};
constexpr Name kNames[] = {{"full_attention", LayerType::kFullAttention},
                           {"sliding_attention", LayerType::kSlidingAttention},
                           {"chunked_attention", LayerType::kChunkedAttention},
                           {"conv", LayerType::kConv, "conv_L_cache"},
                           {"linear_attention", LayerType::kLinearAttention, "linear_num_key_heads"}};

LayerType layer_type_from(const Json& json, const ConfigKeys& keys) {
  check(json.is_string(), ErrorKind::kCorruptData, "{}: \"layer_types\" holds something that is not a string",
        keys.file);
  const auto& name = json.get_ref<const std::string&>();
  const auto* it = std::ranges::find(kNames, name, &Name::name);
  check(it != std::end(kNames) && (it->key == nullptr || keys.json.contains(it->key)), ErrorKind::kUnsupported,
        "{}: the layer type \"{}\" is not supported", keys.file, printable(name));
  return it->type;
}

std::vector<LayerType> listed(const ConfigKeys& keys, std::int64_t n_layers) {
  const Json& types = keys.json.at("layer_types");
  check(types.is_array() && types.size() == static_cast<std::size_t>(n_layers), ErrorKind::kCorruptData,
        "{}: \"layer_types\" must list {} layers, it has {}", keys.file, n_layers, types.size());
  std::vector<LayerType> result;
  for (const Json& type : types) result.push_back(layer_type_from(type, keys));
  return result;
}

/// LFM2 lists the layers that attend; without the list all do.
std::vector<LayerType> from_full_indices(const ConfigKeys& keys, std::int64_t n_layers) {
  const Json& indices = keys.json.at("full_attn_idxs");
  std::vector<LayerType> result(static_cast<std::size_t>(n_layers), LayerType::kConv);
  if (indices.is_null()) std::ranges::fill(result, LayerType::kFullAttention);
  for (const Json& i : indices) {
    check(i.is_number_integer() && i >= 0 && i < n_layers, ErrorKind::kCorruptData,
          "{}: \"full_attn_idxs\" must hold layers from 0 to {}", keys.file, n_layers - 1);
    result[i.get<std::size_t>()] = LayerType::kFullAttention;
  }
  return result;
}

std::vector<LayerType> by_pattern(const ConfigKeys& keys, std::int64_t n_layers, bool window) {
  if (keys.json.contains("full_attn_idxs")) return from_full_indices(keys, n_layers);
  std::vector<bool> rotates;
  if (keys.json.contains("no_rope_layer_interval")) rotates = layers_with_rope(keys, n_layers);
  const std::int64_t every = keys.size("sliding_window_pattern", 0),
                     full_every = keys.size("full_attention_interval", 0);
  const std::int64_t first_sliding = json_int(keys.json, "max_window_layers", 0, keys.file);
  std::vector<LayerType> result;
  for (std::int64_t i = 0; i < n_layers; ++i) {
    const bool rotated = rotates.empty() || rotates[static_cast<std::size_t>(i)];
    LayerType type = LayerType::kFullAttention;
    if (full_every > 0) {
      if ((i + 1) % full_every != 0) type = LayerType::kLinearAttention;
    } else if (every > 0) {
      if ((i + 1) % every != 0) type = LayerType::kSlidingAttention;
    } else if (keys.json.contains("attention_chunk_size")) {
      if (rotated) type = LayerType::kChunkedAttention;
    } else if (window && i >= first_sliding && (rotates.empty() || !rotated)) {
      type = LayerType::kSlidingAttention;
    }
    result.push_back(type);
  }
  return result;
}

}  // namespace

std::vector<bool> layers_with_rope(const ConfigKeys& keys, std::int64_t n_layers) {
  std::vector<bool> result;
  if (!keys.has("no_rope_layers") || keys.json.at("no_rope_layers").empty()) {
    const std::int64_t interval = keys.size("no_rope_layer_interval", 4);
    for (std::int64_t i = 0; i < n_layers; ++i) result.push_back((i + 1) % interval != 0);
    return result;
  }
  const Json& list = keys.json.at("no_rope_layers");
  check(list.is_array() && std::ssize(list) == n_layers, ErrorKind::kCorruptData,
        "{}: \"no_rope_layers\" must list {} layers, it has {}", keys.file, n_layers, list.size());
  for (const Json& rotates : list) {
    check(rotates.is_number_integer() || rotates.is_boolean(), ErrorKind::kCorruptData,
          "{}: \"no_rope_layers\" holds something that is neither 0 nor 1", keys.file);
    result.push_back(rotates.is_boolean() ? rotates.get<bool>() : rotates != 0);
  }
  return result;
}

std::vector<bool> layers_with_rope(const ModelConfig& config) {
  return layers_with_rope(ConfigKeys{config.raw, config.name}, config.num_hidden_layers);
}

void plan_layers(const ConfigKeys& keys, ModelConfig& config) {
  std::optional<std::int64_t> window, chunk;
  if (keys.has("sliding_window") && json_bool(keys.json, "use_sliding_window", true, keys.file)) {
    window = keys.size("sliding_window");
  }
  if (keys.has("attention_chunk_size")) chunk = keys.size("attention_chunk_size");
  config.layer_types = keys.has("layer_types") ? listed(keys, config.num_hidden_layers)
                                               : by_pattern(keys, config.num_hidden_layers, window.has_value());

  // Parity (Gemma 4): whatever a list or the pattern says.
  if (json_bool(keys.json, "last_layer_is_full", false, keys.file))
    config.layer_types.back() = LayerType::kFullAttention;

  const auto any = [&](LayerType type) { return std::ranges::count(config.layer_types, type) > 0; };
  if (any(LayerType::kSlidingAttention)) {
    check(window.has_value(), ErrorKind::kCorruptData, "{}: layers slide, but there is no \"sliding_window\"",
          keys.file);
    config.sliding_window = window;
  }
  if (any(LayerType::kChunkedAttention)) {
    check(chunk.has_value(), ErrorKind::kCorruptData,
          "{}: layers are chunked, but there is no \"attention_chunk_size\"", keys.file);
    config.attention_chunk_size = chunk;
  }
}

Retention retention_of(const ModelConfig& c, std::size_t i) {
  switch (c.layer_types[i]) {
    case LayerType::kSlidingAttention: return Retention::last(c.sliding_window.value());
    case LayerType::kChunkedAttention: return Retention::chunk(c.attention_chunk_size.value());
    default: return Retention::all();
  }
}

}  // namespace mneme
