#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// Mistral 7B: Llama with sliding windows (Jiang et al. 2023, arXiv:2310.06825); the config says which layers slide.
std::unique_ptr<Model> build_mistral(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    parts.layers.push_back(pre_norm_layer(load, c, layer, attention(standard_attention(load, c, layer + "self_attn.")),
                                          standard_feed_forward(load, c, layer + "mlp.")));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
