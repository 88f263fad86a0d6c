#include <algorithm>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/experts.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/layer_types.h"

namespace mneme {
namespace {

/// Layers that mix experts: listed, or every n-th.
bool is_mixture(const ModelConfig& c, std::int64_t i) {
  const Json& list = c.raw.at("moe_layers");
  if (list.is_array()) return std::ranges::any_of(list, [&](const Json& layer) { return layer == i; });
  return (i + 1) % ConfigKeys{c.raw, c.name}.size("interleave_moe_layer_step", 1) == 0;
}

/// The file's rotations turn neighbours; ours turn halves of a head, so rows of queries and keys change their places.
std::vector<std::int64_t> halves(std::int64_t n_heads, std::int64_t head_dim) {
  std::vector<std::int64_t> order;
  for (std::int64_t h = 0; h < n_heads; ++h) {
    for (std::int64_t half : {0, 1}) {
      for (std::int64_t k = 0; k < head_dim / 2; ++k) order.push_back(h * head_dim + 2 * k + half);
    }
  }
  return order;
}

AttentionParts load_attention(const Loader& load, const ModelConfig& c, std::int64_t i, bool rotates) {
  const std::string prefix = layer_prefix(i) + "self_attn.";
  const std::int64_t queries = c.num_attention_heads * c.head_dim, keys = c.num_key_value_heads * c.head_dim;
  AttentionParts heads = standard_attention(load, c, prefix, {.qkv = c.attention_bias, .output = c.attention_bias});
  const ConfigKeys settings{c.raw, c.name};
  if (!rotates) {
    heads.rope.reset();
    if (json_bool(c.raw, "attn_temperature_tuning", true, c.name)) {
      heads.tuning = TemperatureTuning{.floor_scale = settings.positive("floor_scale", 8192),
                                       .scale = settings.number("attn_scale", 0.1)};
    }
    return heads;
  }
  const auto matrix = [&](const char* name, std::int64_t n) {
    return rows_of(load.weights.get(prefix + name + ".weight", {n, c.hidden_size}));
  };
  const auto bias = [&](const char* name, std::int64_t n) { return load.vector(prefix + name + ".bias", n); };
  const auto query_order = halves(c.num_attention_heads, c.head_dim),
             key_order = halves(c.num_key_value_heads, c.head_dim);
  at::Tensor biases;
  if (c.attention_bias) {
    biases =
        at::cat({bias("q_proj", queries).index_select(0, at::tensor(query_order).to(load.device)),
                 bias("k_proj", keys).index_select(0, at::tensor(key_order).to(load.device)), bias("v_proj", keys)});
  }
  heads.qkv = load.linear(joined({picked(matrix("q_proj", queries), query_order),
                                  picked(matrix("k_proj", keys), key_order), matrix("v_proj", keys)}),
                          biases);
  if (json_bool(c.raw, "use_qk_norm", true, c.name)) {
    heads.query_norm = heads.key_norm = Norm(c.head_dim, c.rms_norm_eps, load.device);
    heads.norm_after_rope = true;
  }
  return heads;
}

std::unique_ptr<const Sublayer> load_experts(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  ExpertsParts parts{.routing = router_options(c, "num_local_experts"), .activation = ops::activation_of(c.hidden_act)};
  parts.routing.sigmoid = true;
  parts.routing.normalized = false;
  parts.weighs_input = true;
  const std::int64_t n = parts.routing.n_experts;
  parts.router = load.linear({{prefix + "router", n}}, width);
  const StoredTensor& gate_up = load.weights.get(prefix + "experts.gate_up_proj", {n, width, 2 * inner});
  const StoredTensor& down = load.weights.get(prefix + "experts.down_proj", {n, inner, width});
  std::vector<WeightRows> gates_ups, downs;
  for (std::int64_t e = 0; e < n; ++e) {
    gates_ups.push_back(transposed(gate_up, e * width, width));
    downs.push_back(transposed(down, e * inner, inner));
  }
  parts.gate_up = load.grouped(n, joined(std::move(gates_ups)));
  parts.down = load.grouped(n, joined(std::move(downs)));
  parts.shared = standard_feed_forward(load, c, prefix + "shared_expert.");
  return experts(std::move(parts));
}

}  // namespace

// Llama 4: attention in chunks with rotations, every fourth layer full and without positions, one expert a token beside
// a shared one (Meta 2025, "The Llama 4 herd").
std::unique_ptr<Model> build_llama4(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  const std::vector<bool> rotates = layers_with_rope(c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    const std::int64_t dense = ConfigKeys{c.raw, c.name}.size("intermediate_size_mlp");
    parts.layers.push_back(pre_norm_layer(
        load, c, layer, attention(load_attention(load, c, i, rotates[static_cast<std::size_t>(i)])),
        is_mixture(c, i) ? load_experts(load, c, layer + "feed_forward.")
                         : standard_feed_forward(load, c, layer + "feed_forward.", dense, /*bias=*/false)));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
