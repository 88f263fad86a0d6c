#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// Phi-3, Phi-3.5 and Phi-4: queries, keys and values are stored as one matrix, gate and up as another
// (arXiv:2404.14219).
std::unique_ptr<Model> build_phi3(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  const std::int64_t queries = c.num_attention_heads * c.head_dim, keys = c.num_key_value_heads * c.head_dim;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    AttentionParts heads = attention_sizes(c);
    heads.qkv = load.linear({{layer + "self_attn.qkv_proj", queries + 2 * keys}}, c.hidden_size);
    heads.output = load.linear({{layer + "self_attn.o_proj", c.hidden_size}}, queries);
    parts.layers.push_back(pre_norm_layer(
        load, c, layer, attention(std::move(heads)),
        gated_feed_forward(load.linear({{layer + "mlp.gate_up_proj", 2 * c.intermediate_size}}, c.hidden_size),
                           load.linear({{layer + "mlp.down_proj", c.hidden_size}}, c.intermediate_size),
                           ops::activation_of(c.hidden_act))));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
