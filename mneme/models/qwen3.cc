#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// Qwen3: each query and key head is normalized before its rotation (arXiv:2505.09388).
std::unique_ptr<Model> build_qwen3(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    normalize_heads(heads, load, c, layer + "self_attn.");
    parts.layers.push_back(
        pre_norm_layer(load, c, layer, attention(std::move(heads)), standard_feed_forward(load, c, layer + "mlp.")));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
