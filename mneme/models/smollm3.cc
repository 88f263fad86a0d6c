#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/layer_types.h"

namespace mneme {

// SmolLM3: Llama of which every fourth layer knows no positions (Yang et al. 2025, arXiv:2501.18795).
std::unique_ptr<Model> build_smollm3(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  const std::vector<bool> rotates = layers_with_rope(c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    if (!rotates[static_cast<std::size_t>(i)]) heads.rope.reset();
    parts.layers.push_back(pre_norm_layer(load, c, layer, attention(std::move(heads)),
                                          standard_feed_forward(load, c, layer + "mlp.", c.mlp_bias)));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
