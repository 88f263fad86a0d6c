#include "mneme/models/architectures.h"
#include "mneme/models/decoder.h"

namespace mneme {

// Mistral 7B: Llama with sliding windows (Jiang et al. 2023, arXiv:2310.06825); the config says which layers slide.
std::unique_ptr<Model> build_mistral(const ModelConfig& config, const Weights& weights, DType dtype,
                                     at::Device device) {
  return std::make_unique<Decoder>(config, weights, dtype, device, DecoderOptions{});
}

}  // namespace mneme
