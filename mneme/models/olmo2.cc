#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// OLMo 2: norms after the sublayers instead of before, and over all query heads and all key heads together
// (arXiv:2501.00656).
std::unique_ptr<Model> build_olmo2(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    const auto norm = [&](const char* name, std::int64_t n) { return Norm(load, layer + name, n, c.rms_norm_eps); };
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    heads.query_norm = norm("self_attn.q_norm", c.num_attention_heads * c.head_dim);
    heads.key_norm = norm("self_attn.k_norm", c.num_key_value_heads * c.head_dim);
    std::vector<Residual> residuals;
    residuals.push_back({.f = attention(std::move(heads)), .after = norm("post_attention_layernorm", c.hidden_size)});
    residuals.push_back({.f = standard_feed_forward(load, c, layer + "mlp."),
                         .after = norm("post_feedforward_layernorm", c.hidden_size)});
    parts.layers.push_back(std::move(residuals));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
