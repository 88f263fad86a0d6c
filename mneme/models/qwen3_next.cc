#include <utility>

#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/gated_delta.h"
#include "mneme/models/qwen_experts.h"

namespace mneme {
namespace {

/// Queries and their gates lie head by head in one matrix; a gate closes what its head attended to.
AttentionParts load_attention(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  const std::int64_t queries = c.num_attention_heads * c.head_dim, keys = c.num_key_value_heads * c.head_dim;
  const auto rows = [&](const char* name, std::int64_t n) {
    return rows_of(load.weights.get(prefix + name + ".weight", {n, c.hidden_size}));
  };
  std::vector<std::int64_t> query_rows, gate_rows;
  for (std::int64_t r = 0; r < queries; ++r) {
    const std::int64_t first = r / c.head_dim * 2 * c.head_dim + r % c.head_dim;
    query_rows.push_back(first);
    gate_rows.push_back(first + c.head_dim);
  }
  at::Tensor bias;
  if (c.attention_bias) {
    const at::Tensor both = load.vector(prefix + "q_proj.bias", 2 * queries);
    const auto of = [&](const std::vector<std::int64_t>& order) {
      return both.index_select(0, at::tensor(order).to(load.device));
    };
    bias = at::cat({of(query_rows), load.vector(prefix + "k_proj.bias", keys),
                    load.vector(prefix + "v_proj.bias", keys), of(gate_rows)});
  }
  AttentionParts heads = attention_sizes(c);
  heads.gated = true;
  heads.qkv = load.linear(joined({picked(rows("q_proj", 2 * queries), query_rows), rows("k_proj", keys),
                                  rows("v_proj", keys), picked(rows("q_proj", 2 * queries), gate_rows)}),
                          bias);
  heads.output = load.linear({{prefix + "o_proj", c.hidden_size}}, queries, c.attention_bias);
  normalize_heads(heads, load, c, prefix, NormKind::kRmsOnePlus);
  return heads;
}

}  // namespace

CacheShape qwen3_next_cache_shape(const ModelConfig& c, DType dtype, at::Device device) {
  CacheShape shape = cache_shape_of(c, dtype, device);
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    if (c.layer_types[i] == LayerType::kLinearAttention) shape.layers[i] = {.state = GatedDeltaSizes(c).state_shape()};
  }
  return shape;
}

// Qwen3-Next: three layers of four are gated delta nets, the fourth is gated attention; experts with a gated shared one
// (Qwen 2025, "Qwen3-Next").
std::unique_ptr<Model> build_qwen3_next(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c, NormKind::kRmsOnePlus);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    const auto norm = [&](const char* name) {
      return Norm(load, layer + name, c.hidden_size, c.rms_norm_eps, NormKind::kRmsOnePlus);
    };
    const bool linear = c.layer_types[static_cast<std::size_t>(i)] == LayerType::kLinearAttention;
    parts.layers.push_back(pre_norm_layer(norm("input_layernorm"),
                                          linear ? gated_delta(load, c, layer + "linear_attn.")
                                                 : attention(load_attention(load, c, layer + "self_attn.")),
                                          norm("post_attention_layernorm"),
                                          qwen_feed_forward(load, c, i, layer + "mlp.")));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
