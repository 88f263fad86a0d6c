#include "mneme/models/architectures.h"
#include "mneme/models/decoder.h"

namespace mneme {

// Qwen3: each query and key head is normalized before its rotation (arXiv:2505.09388).
std::unique_ptr<Model> build_qwen3(const ModelConfig& config, const Weights& weights, DType dtype, at::Device device) {
  return std::make_unique<Decoder>(
      config, weights, dtype, device,
      DecoderOptions{.qkv_bias = config.attention_bias, .output_bias = config.attention_bias, .qk_norm = true});
}

}  // namespace mneme
