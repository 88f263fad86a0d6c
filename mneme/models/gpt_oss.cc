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

/// All experts' [out, in] matrices of a name: numbers that are stored as [in, out], MXFP4 in blocks and scales, or
/// (GGUF) as they are.
WeightRows matrices(const Loader& load, const std::string& name, std::int64_t n, std::int64_t out, std::int64_t in) {
  if (load.weights.is_gguf()) return rows_of(load.weights.get(name + ".weight", {n, out, in}));
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

at::Tensor biases(const Loader& load, const std::string& name, std::int64_t n, std::int64_t out) {
  return load.matrix(name + (load.weights.is_gguf() ? ".bias" : "_bias"), {n, out});
}

/// Ours are all gates and then all ups, expert by expert; begin(expert, half) is where those of the file begin, `step`
/// rows apart.
template <class Begin>
std::vector<std::int64_t> gates_first(std::int64_t n, std::int64_t inner, std::int64_t step, Begin begin) {
  std::vector<std::int64_t> order;
  for (std::int64_t e = 0; e < n; ++e) {
    for (const std::int64_t half : {0, 1}) {
      for (std::int64_t k = 0; k < inner; ++k) order.push_back(begin(e, half) + k * step);
    }
  }
  return order;
}

ops::GroupedLinear load_gate_up(const Loader& load, const std::string& prefix, std::int64_t n, std::int64_t inner,
                                std::int64_t width) {
  if (load.weights.is_gguf()) {  // two tensors
    const std::string gate = prefix + "gate_proj", up = prefix + "up_proj";
    const WeightRows both = joined({matrices(load, gate, n, inner, width), matrices(load, up, n, inner, width)});
    const auto begin = [&](std::int64_t e, std::int64_t half) { return (half * n + e) * inner; };
    return load.grouped(n, picked(both, gates_first(n, inner, 1, begin)),
                        at::cat({biases(load, gate, n, inner), biases(load, up, n, inner)}, 1));
  }
  const std::string name = prefix + "gate_up_proj";          // one tensor, in which they alternate
  const at::Tensor bias = biases(load, name, n, 2 * inner);  // sizes are held against the file before they are trusted
  const auto begin = [&](std::int64_t e, std::int64_t half) { return e * inner * 2 + half; };
  const std::vector<std::int64_t> order = gates_first(n, inner, 2, begin);
  return load.grouped(n, picked(matrices(load, name, n, 2 * inner, width), order),
                      bias.flatten().index_select(0, at::tensor(order).to(load.device)).view_as(bias));
}

std::unique_ptr<const Sublayer> load_experts(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  const ConfigKeys keys{c.raw, c.name};
  ExpertsParts parts{.routing = router_options(c, keys.has("num_experts") ? "num_experts" : "num_local_experts")};
  const std::int64_t n = parts.routing.n_experts, width = c.hidden_size, inner = c.intermediate_size;
  const std::string each = prefix + "experts.", down = each + "down_proj";
  parts.router = load.linear({{prefix + "router", n}}, width, /*bias=*/true);
  parts.clamped = ClampedSwiglu{.alpha = static_cast<float>(keys.positive("swiglu_alpha", 1.702)),
                                .limit = static_cast<float>(keys.positive("swiglu_limit", 7.0))};
  parts.gate_up = load_gate_up(load, each, n, inner, width);
  parts.down = load.grouped(n, matrices(load, down, n, width, inner), biases(load, down, n, width));
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
