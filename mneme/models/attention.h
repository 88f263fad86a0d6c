#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mneme/models/config.h"
#include "mneme/models/sublayer.h"
#include "mneme/ops/linear.h"

namespace mneme {

/// Queries that grow with their position, on layers without RoPE (Llama 4): q <- q (1 + scale log(1 + floor((p + 1) /
/// floor_scale))). Source: Nakanishi 2025, arXiv:2501.19399.
struct TemperatureTuning {
  double floor_scale = 8192, scale = 0.1;
};

/// A layer's weights and how its scores become weights. An architecture file starts from `standard_attention` and says
/// what is different.
struct AttentionParts {
  std::int64_t n_heads = 0, head_dim = 0;
  std::int64_t n_key_value_heads = 0;  ///< none: keys and values are those that another layer has written (Gemma 4)
  ops::Linear qkv = {};                ///< queries, keys, values, and, with `gated`, a gate for each query head
  ops::Linear output = {};
  Norm query_norm = {}, key_norm = {};  ///< of each head, or, as wide as they, of all heads together
  Norm value_norm = {};                 ///< of each head
  bool norm_after_rope = false;         ///< else before
  std::optional<std::size_t> rope = 0;  ///< which of the model's rotary embeddings; none: no positions
  std::optional<TemperatureTuning> tuning = {};
  float scale = 1.0f;     ///< of scores
  float softcap = 0.0f;   ///< of scores; 0: none
  at::Tensor sinks = {};  ///< [n_heads] logits that take part in the softmax alone (gpt-oss)
  bool gated = false;     ///< what was attended to is multiplied by sigmoid(gate)
};

/// Heads as the config says, scores by 1 / sqrt(head_dim), no weights.
AttentionParts attention_sizes(const ModelConfig& config);

struct AttentionBias {
  bool qkv = false, output = false;
};

/// The same with q_proj, k_proj, v_proj and o_proj below `prefix`, which ends in a dot.
AttentionParts standard_attention(const Loader& load, const ModelConfig& config, const std::string& prefix,
                                  AttentionBias bias = {});

/// Norms of each query and key head, q_norm and k_norm below `prefix`.
void normalize_heads(AttentionParts& parts, const Loader& load, const ModelConfig& config, const std::string& prefix,
                     NormKind kind = NormKind::kRms);

/// y = O(attention(rope(norm(Q x)), rope(norm(K x)), norm(V x))). Queries, keys and values are one product.
std::unique_ptr<const Sublayer> attention(AttentionParts parts);

}  // namespace mneme
