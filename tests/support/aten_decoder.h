#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/models/model.h"
#include "mneme/models/weights.h"

namespace mneme::testing {

/// The decoder of Llama, Mistral and Qwen once more, word for word from its papers: ATen in double precision, a cache
/// through its classic door, and an attention of its own over what `update` returns.
class AtenDecoder {
 public:
  AtenDecoder(const ModelConfig& config, const Weights& weights) : c_(config), weights_(weights) {}

  /// Logits [T, V] of T more tokens of one sequence.
  at::Tensor forward(const std::vector<std::int64_t>& ids, Cache& cache) const {
    const std::int64_t past = cache.seq_length(), n = std::ssize(ids);
    const at::Tensor table = tensor("model.embed_tokens.weight", {c_.vocab_size, c_.hidden_size});
    const at::Tensor positions = at::arange(past, past + n, at::kDouble);
    at::Tensor h = table.index_select(0, at::tensor(ids, at::kLong));
    for (std::int64_t i = 0; i < c_.num_hidden_layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      const at::Tensor x = norm(h, layer + "input_layernorm.weight");
      h = h + linear(attention(x, positions, i, cache), layer + "self_attn.o_proj", c_.hidden_size);
      const at::Tensor y = norm(h, layer + "post_attention_layernorm.weight");
      const at::Tensor gate = linear(y, layer + "mlp.gate_proj", c_.intermediate_size);
      h = h + linear(gate * at::sigmoid(gate) * linear(y, layer + "mlp.up_proj", c_.intermediate_size),
                     layer + "mlp.down_proj", c_.hidden_size);
    }
    h = norm(h, "model.norm.weight");
    return at::matmul(h, (c_.tie_word_embeddings ? table : tensor("lm_head.weight", table.sizes().vec())).t());
  }

 private:
  at::Tensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const StoredTensor& stored = weights_.get(name, shape);
    at::Tensor t = at::empty(shape, at::kFloat);
    read_rows(stored, 0, stored.rows(), t.mutable_data_ptr<float>());
    return t.to(at::kDouble);
  }

  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    const at::Tensor mean = x.square().mean(-1, true) + c_.rms_norm_eps;
    return x / mean.sqrt() * tensor(name, {x.size(-1)});
  }

  at::Tensor linear(const at::Tensor& x, const std::string& name, std::int64_t out) const {
    const at::Tensor y = at::matmul(x, tensor(name + ".weight", {out, x.size(-1)}).t());
    return weights_.contains(name + ".bias") ? y + tensor(name + ".bias", {out}) : y;
  }

  double frequency(std::int64_t pair) const {
    const RopeConfig& r = c_.rope;
    const double f = std::pow(r.rope_theta, -2.0 * static_cast<double>(pair) / static_cast<double>(c_.head_dim));
    if (r.rope_type == "linear") return f / r.factor;
    if (r.rope_type != "llama3") return f;
    const double turns = static_cast<double>(r.original_max_position_embeddings) * f / (2 * std::numbers::pi);
    const double keep = std::clamp((turns - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor), 0.0, 1.0);
    return keep * f + (1 - keep) * f / r.factor;
  }

  /// x [T, H, D]
  at::Tensor rotated(const at::Tensor& x, const at::Tensor& positions) const {
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < c_.head_dim / 2; ++i) frequencies.push_back(frequency(i));
    const at::Tensor angles = at::outer(positions, at::tensor(frequencies, at::kDouble)).unsqueeze(1);
    const auto halves = x.chunk(2, -1);
    return at::cat(
        {halves[0] * angles.cos() - halves[1] * angles.sin(), halves[1] * angles.cos() + halves[0] * angles.sin()}, -1);
  }

  at::Tensor attention(const at::Tensor& x, const at::Tensor& positions, std::int64_t i, Cache& cache) const {
    const std::string name = "model.layers." + std::to_string(i) + ".self_attn.";
    const std::int64_t n = x.size(0), heads = c_.num_attention_heads, kv = c_.num_key_value_heads;
    at::Tensor q = linear(x, name + "q_proj", heads * c_.head_dim).view({n, heads, c_.head_dim});
    at::Tensor k = linear(x, name + "k_proj", kv * c_.head_dim).view({n, kv, c_.head_dim});
    const at::Tensor v = linear(x, name + "v_proj", kv * c_.head_dim).view({n, kv, c_.head_dim});
    if (weights_.contains(name + "q_norm.weight"))
      q = norm(q, name + "q_norm.weight"), k = norm(k, name + "k_norm.weight");
    q = rotated(q, positions), k = rotated(k, positions);
    // [1, Hkv, L, D]: the last L tokens up to the newest.
    auto [keys, values] = cache.update(k.transpose(0, 1).unsqueeze(0), v.transpose(0, 1).unsqueeze(0), i);
    keys = keys[0].to(at::kDouble).repeat_interleave(heads / kv, 0);
    values = values[0].to(at::kDouble).repeat_interleave(heads / kv, 0);
    const at::Tensor query = positions.unsqueeze(1);
    const at::Tensor key = (at::arange(keys.size(1), at::kDouble) + (positions[-1] + 1 - keys.size(1))).unsqueeze(0);
    at::Tensor visible = key <= query;
    const LayerType type = c_.layer_types[static_cast<std::size_t>(i)];
    if (type == LayerType::kSlidingAttention) visible = visible & (key > query - *c_.sliding_window);
    if (type == LayerType::kChunkedAttention) {
      const double chunk = static_cast<double>(*c_.attention_chunk_size);
      visible = visible & ((key / chunk).floor() == (query / chunk).floor());
    }
    at::Tensor scores =
        at::matmul(q.transpose(0, 1), keys.transpose(1, 2)) / std::sqrt(static_cast<double>(c_.head_dim));
    scores = at::softmax(scores.masked_fill(visible.logical_not(), -INFINITY), -1);
    return at::matmul(scores, values).transpose(0, 1).reshape({n, heads * c_.head_dim});
  }

  ModelConfig c_;
  Weights weights_;
};

}  // namespace mneme::testing
