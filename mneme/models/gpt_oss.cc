#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/experts.h"
#include "mneme/models/mxfp4.h"

namespace mneme {
namespace {

/// Gates and ups lie alternately in the file; ours are all gates and then all ups, expert by expert.
std::vector<std::int64_t> gates_first(std::int64_t n_experts, std::int64_t inner) {
  std::vector<std::int64_t> order;
  for (std::int64_t e = 0; e < n_experts; ++e) {
    for (std::int64_t half : {0, 1}) {
      for (std::int64_t k = 0; k < inner; ++k) order.push_back((e * inner + k) * 2 + half);
    }
  }
  return order;
}

/// All experts' [out, in] matrices of a name: MXFP4, or numbers stored as [in, out].
WeightRows matrices(const Loader& load, const std::string& name, std::int64_t n, std::int64_t out, std::int64_t in) {
  if (load.weights.contains(name + "_blocks")) {
    check(in % 32 == 0, ErrorKind::kCorruptData, "{}: rows of {} are no blocks of 32", name, in);
    return mxfp4_rows(load.weights.get(name + "_blocks", {n, out, in / 32, 16}),
                      load.weights.get(name + "_scales", {n, out, in / 32}));
  }
  const StoredTensor& stored = load.weights.get(name, {n, in, out});
  std::vector<WeightRows> each;
  for (std::int64_t e = 0; e < n; ++e) each.push_back(transposed(stored, e * in, in));
  return joined(std::move(each));
}

std::unique_ptr<const Sublayer> load_experts(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  const ConfigKeys keys{c.raw, c.name};
  ExpertsParts parts{.routing = router_options(c, keys.has("num_experts") ? "num_experts" : "num_local_experts")};
  const std::int64_t n = parts.routing.n_experts, width = c.hidden_size, inner = c.intermediate_size;
  parts.router = load.linear({{prefix + "router", n}}, width, /*bias=*/true);
  parts.clamped = ClampedSwiglu{.alpha = static_cast<float>(keys.positive("swiglu_alpha", 1.702)),
                                .limit = static_cast<float>(keys.positive("swiglu_limit", 7.0))};
  const auto order = gates_first(n, inner);
  const at::Tensor bias = load.matrix(prefix + "experts.gate_up_proj_bias", {n, 2 * inner});
  const WeightRows gate_up = picked(matrices(load, prefix + "experts.gate_up_proj", n, 2 * inner, width), order);
  const WeightRows down = matrices(load, prefix + "experts.down_proj", n, width, inner);
  parts.gate_up =
      load.grouped(n, gate_up, bias.flatten().index_select(0, at::tensor(order).to(load.device)).view_as(bias));
  parts.down = load.grouped(n, down, load.matrix(prefix + "experts.down_proj_bias", {n, width}));
  return experts(std::move(parts));
}

}  // namespace

// gpt-oss: every other layer slides, each head has a logit that takes part in its softmax alone, experts have biases
// and are stored in four bits (arXiv:2508.10925).
std::unique_ptr<Model> build_gpt_oss(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    heads.sinks = load.vector(layer + "self_attn.sinks", c.num_attention_heads);
    parts.layers.push_back(
        pre_norm_layer(load, c, layer, attention(std::move(heads)), load_experts(load, c, layer + "mlp.")));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
