#include "mneme/models/architectures.h"
#include "mneme/models/decoder.h"

namespace mneme {

// Llama 2, 3, 3.x, SmolLM and SmolLM2 (Touvron et al. 2023, arXiv:2307.09288; arXiv:2407.21783).
std::unique_ptr<Model> build_llama(const ModelConfig& config, const Weights& weights, DType dtype, at::Device device) {
  return std::make_unique<Decoder>(
      config, weights, dtype, device,
      DecoderOptions{
          .qkv_bias = config.attention_bias, .output_bias = config.attention_bias, .mlp_bias = config.mlp_bias});
}

}  // namespace mneme
