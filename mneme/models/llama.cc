#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// Llama 2, 3, 3.x, SmolLM and SmolLM2 (Touvron et al. 2023, arXiv:2307.09288; arXiv:2407.21783).
std::unique_ptr<Model> build_llama(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    const AttentionBias bias{.qkv = c.attention_bias, .output = c.attention_bias};
    parts.layers.push_back(pre_norm_layer(load, c, layer,
                                          attention(standard_attention(load, c, layer + "self_attn.", bias)),
                                          standard_feed_forward(load, c, layer + "mlp.", c.mlp_bias)));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
