#include "mneme/models/decoder.h"

#include <cmath>

#include "mneme/base/error.h"
#include "mneme/models/loading.h"
#include "mneme/ops/norm.h"

namespace mneme {
namespace {

const StoredTensor& embedding_table(const Weights& weights, const ModelConfig& c) {
  return weights.get("model.embed_tokens.weight", {c.vocab_size, c.hidden_size});
}

ops::Rope rope_of(const ModelConfig& c) {
  return ops::Rope(c.head_dim, {.type = c.rope.rope_type,
                                .theta = c.rope.rope_theta,
                                .factor = c.rope.factor,
                                .low_freq_factor = c.rope.low_freq_factor,
                                .high_freq_factor = c.rope.high_freq_factor,
                                .original_max_position_embeddings = c.rope.original_max_position_embeddings});
}

}  // namespace

CacheShape cache_shape_of(const ModelConfig& c, DType dtype, at::Device device) {
  CacheShape shape{.layers = {}, .dtype = dtype, .device = device};
  for (const LayerType type : c.layer_types) {
    const Retention retention = type == LayerType::kSlidingAttention ? Retention::last(c.sliding_window.value())
                                : type == LayerType::kChunkedAttention
                                    ? Retention::chunk(c.attention_chunk_size.value())
                                    : Retention::all();
    shape.layers.push_back(
        {.retention = retention, .n_heads = c.num_key_value_heads, .key_dim = c.head_dim, .value_dim = c.head_dim});
  }
  return shape;
}

Decoder::Decoder(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device,
                 const DecoderOptions& options)
    : Model(c, dtype, device),
      embedding_(weights, embedding_table(weights, c), dtype),
      norm_(load_vector(weights, "model.norm.weight", c.hidden_size, dtype, device)),
      rope_(rope_of(c)),
      activation_(ops::activation_of(c.hidden_act)) {
  head_ = load_head(weights, embedding_.table(), "lm_head.weight", c.tie_word_embeddings, dtype, device);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.push_back(load_layer(weights, i, options));
}

Decoder::Layer Decoder::load_layer(const Weights& weights, std::int64_t index, const DecoderOptions& options) const {
  const ModelConfig& c = config();
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const std::int64_t queries = c.num_attention_heads * c.head_dim, keys = c.num_key_value_heads * c.head_dim;
  const auto linear = [&](const std::vector<LinearPart>& parts, std::int64_t in, bool bias) {
    return load_linear(weights, parts, in, bias, dtype(), device());
  };
  const auto norm = [&](const char* name, std::int64_t n) {
    return load_vector(weights, prefix + name, n, dtype(), device());
  };
  Layer layer;
  layer.attention_norm = norm("input_layernorm.weight", c.hidden_size);
  layer.mlp_norm = norm("post_attention_layernorm.weight", c.hidden_size);
  if (options.qk_norm) {
    layer.query_norm = norm("self_attn.q_norm.weight", c.head_dim);
    layer.key_norm = norm("self_attn.k_norm.weight", c.head_dim);
  }
  layer.qkv = linear({{prefix + "self_attn.q_proj", queries},
                      {prefix + "self_attn.k_proj", keys},
                      {prefix + "self_attn.v_proj", keys}},
                     c.hidden_size, options.qkv_bias);
  layer.output = linear({{prefix + "self_attn.o_proj", c.hidden_size}}, queries, options.output_bias);
  layer.gate_up =
      linear({{prefix + "mlp.gate_proj", c.intermediate_size}, {prefix + "mlp.up_proj", c.intermediate_size}},
             c.hidden_size, options.mlp_bias);
  layer.down = linear({{prefix + "mlp.down_proj", c.hidden_size}}, c.intermediate_size, options.mlp_bias);
  return layer;
}

std::int64_t Decoder::n_bytes() const {
  std::int64_t total = head_.n_bytes();
  for (const Layer& layer : layers_) {
    total += layer.qkv.n_bytes() + layer.output.n_bytes() + layer.gate_up.n_bytes() + layer.down.n_bytes();
  }
  return total;
}

void Decoder::forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
                      const ops::Rows& logits) const {
  ops::Workspace& workspace = cache.workspace();
  const ops::Workspace::Scope scope(workspace);
  const std::int64_t n = batch.n_tokens(), width = config().hidden_size;
  const ops::Rows hidden = ops::scratch_rows(workspace, n, width);
  if (batch.ids.empty()) {
    ops::copy(workspace, batch.embeddings, hidden);
  } else {
    embedding_.forward(workspace, batch.ids, hidden);
  }
  const ops::Rope::Table angles = rope_.table(workspace, batch.positions);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    attention(workspace, layers_[i], cache.layers()[i].attention(), batch, angles, hidden);
    mlp(workspace, layers_[i], hidden);
  }
  const ops::Rows last = ops::scratch_rows(workspace, logits.n, width);
  ops::select_rows(workspace, hidden, logit_rows, last);
  ops::rms_norm(workspace, last, norm_, static_cast<float>(config().rms_norm_eps), last);
  head_.forward(workspace, last, logits);
}

void Decoder::attention(ops::Workspace& workspace, const Layer& layer, KvLayer& kv, const TokenBatch& batch,
                        const ops::Rope::Table& angles, const ops::Rows& hidden) const {
  const ops::Workspace::Scope scope(workspace);
  const ModelConfig& c = config();
  const auto eps = static_cast<float>(c.rms_norm_eps);
  const std::int64_t key_offset = c.num_attention_heads * c.head_dim,
                     value_offset = key_offset + c.num_key_value_heads * c.head_dim;
  const ops::Rows x = ops::scratch_rows(workspace, hidden.n, hidden.width);
  const ops::Rows qkv = ops::scratch_rows(workspace, hidden.n, layer.qkv.out_features());
  const ops::Rows attended = ops::scratch_rows(workspace, hidden.n, key_offset);
  ops::rms_norm(workspace, hidden, layer.attention_norm, eps, x);
  layer.qkv.forward(workspace, x, qkv);
  if (layer.query_norm.defined()) {
    ops::rms_norm_heads(workspace, layer.query_norm, eps, qkv, 0, c.num_attention_heads);
    ops::rms_norm_heads(workspace, layer.key_norm, eps, qkv, key_offset, c.num_key_value_heads);
  }
  // Queries and keys lie side by side: one call turns both.
  rope_.apply(workspace, angles, qkv, 0, c.num_attention_heads + c.num_key_value_heads, c.head_dim);
  kv.attend(workspace, batch.row_starts,
            {.keys = qkv, .key_offset = key_offset, .values = qkv, .value_offset = value_offset},
            {.q = qkv, .n_heads = c.num_attention_heads, .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim))},
            attended);
  layer.output.forward(workspace, attended, x);
  ops::add(workspace, x, hidden);
}

void Decoder::mlp(ops::Workspace& workspace, const Layer& layer, const ops::Rows& hidden) const {
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows x = ops::scratch_rows(workspace, hidden.n, hidden.width);
  const ops::Rows gate_up = ops::scratch_rows(workspace, hidden.n, layer.gate_up.out_features());
  const ops::Rows active = ops::scratch_rows(workspace, hidden.n, layer.down.in_features());
  ops::rms_norm(workspace, hidden, layer.mlp_norm, static_cast<float>(config().rms_norm_eps), x);
  layer.gate_up.forward(workspace, x, gate_up);
  ops::gated(workspace, activation_, gate_up, active);
  layer.down.forward(workspace, active, x);
  ops::add(workspace, x, hidden);
}

}  // namespace mneme
