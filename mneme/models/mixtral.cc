#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/experts.h"

namespace mneme {

// Mixtral: Mistral with a mixture of experts in each layer (Jiang et al. 2024, arXiv:2401.04088).
std::unique_ptr<Model> build_mixtral(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    parts.layers.push_back(
        pre_norm_layer(load, c, layer, attention(standard_attention(load, c, layer + "self_attn.")),
                       experts(standard_experts(load, c, layer + "block_sparse_moe.", c.intermediate_size,
                                                router_options(c, "num_local_experts"), {"w1", "w3", "w2"}))));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
