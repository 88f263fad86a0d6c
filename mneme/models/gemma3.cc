#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/gemma.h"

namespace mneme {

// Gemma 3: five layers of six slide and rotate with a base of their own; queries and keys are normalized
// (arXiv:2503.19786).
std::unique_ptr<Model> build_gemma3(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  check(!json_bool(c.raw, "use_bidirectional_attention", false, c.name), ErrorKind::kUnsupported,
        "{}: \"use_bidirectional_attention\" makes an encoder of this model, which generates nothing", c.name);
  const Loader load{weights, dtype, device};
  return build_gemma(c, load, [&](AttentionParts& heads, std::int64_t i) {
    normalize_heads(heads, load, c, layer_prefix(i) + "self_attn.", gemma_norm(weights));
  });
}

}  // namespace mneme
