#include "mneme/models/architectures.h"
#include "mneme/models/gemma.h"

namespace mneme {

// Gemma 2: every other layer slides, scores and logits are capped (arXiv:2408.00118).
std::unique_ptr<Model> build_gemma2(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  return build_gemma(c, {weights, dtype, device}, [](AttentionParts&, std::int64_t) {});
}

}  // namespace mneme
