#include "mneme/models/architectures.h"
#include "mneme/models/decoder.h"

namespace mneme {

// Qwen2 and Qwen2.5: biases on queries, keys and values only (arXiv:2407.10671).
std::unique_ptr<Model> build_qwen2(const ModelConfig& config, const Weights& weights, DType dtype, at::Device device) {
  return std::make_unique<Decoder>(config, weights, dtype, device, DecoderOptions{.qkv_bias = config.attention_bias});
}

}  // namespace mneme
