#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// Granite 3: Llama with four multipliers (IBM 2024, "Granite 3.0 Language Models").
std::unique_ptr<Model> build_granite(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  const auto multiplier = [&](const char* key) {
    return static_cast<float>(ConfigKeys{c.raw, c.name}.positive(key, 1.0));
  };
  DecoderParts parts = standard_ends(load, c);
  parts.embedding_scale = multiplier("embedding_multiplier");
  parts.scales_given_embeddings = true;
  parts.logit_scale = 1.0f / multiplier("logits_scaling");
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    heads.scale = multiplier("attention_multiplier");
    parts.layers.push_back(pre_norm_layer(load, c, layer, attention(std::move(heads)),
                                          standard_feed_forward(load, c, layer + "mlp.", c.mlp_bias)));
    for (Residual& residual : parts.layers.back()) residual.scale = multiplier("residual_multiplier");
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
