#include "mneme/models/gemma.h"

#include <cmath>

#include "mneme/models/config_keys.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/rope.h"

namespace mneme {

float gemma_number(const ModelConfig& c, const char* key, double fallback) {
  return static_cast<float>(ConfigKeys{c.raw, c.name}.has(key) ? ConfigKeys{c.raw, c.name}.positive(key, fallback)
                                                               : fallback);
}

// Parity: the factor is rounded to the model's dtype, as the embedding is.
float gemma_embedding_scale(std::int64_t width, DType dtype) {
  return at::tensor(std::sqrt(static_cast<double>(width))).to(ops::scalar_type(dtype)).item<float>();
}

NormKind gemma_norm(const Weights& weights) { return weights.is_gguf() ? NormKind::kRms : NormKind::kRmsOnePlus; }

std::unique_ptr<Model> build_gemma(const ModelConfig& c, const Loader& load,
                                   const std::function<void(AttentionParts&, std::int64_t)>& adjust) {
  const NormKind kind = gemma_norm(load.weights);
  DecoderParts parts = standard_ends(load, c, kind);
  parts.embedding_scale = gemma_embedding_scale(c.hidden_size, load.dtype);
  parts.logit_softcap = gemma_number(c, "final_logit_softcapping", 0);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    const auto norm = [&](const char* name) { return Norm(load, layer + name, c.hidden_size, c.rms_norm_eps, kind); };
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    heads.scale = 1.0f / std::sqrt(gemma_number(c, "query_pre_attn_scalar", static_cast<double>(c.head_dim)));
    heads.softcap = gemma_number(c, "attn_logit_softcapping", 0);
    heads.rope = rope_of_layer(c, i);
    adjust(heads, i);
    std::vector<Residual> residuals;
    residuals.push_back({.before = norm("input_layernorm"),
                         .f = attention(std::move(heads)),
                         .after = norm("post_attention_layernorm")});
    residuals.push_back({.before = norm("pre_feedforward_layernorm"),
                         .f = standard_feed_forward(load, c, layer + "mlp."),
                         .after = norm("post_feedforward_layernorm")});
    parts.layers.push_back(std::move(residuals));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
