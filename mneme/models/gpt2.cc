#include <cmath>

#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"

namespace mneme {

// GPT-2: learned positions, layer norms, biases everywhere, no gate; weights are stored as [in, out] (Radford et al.
// 2019, "Language Models are Unsupervised Multitask Learners").
std::unique_ptr<Model> build_gpt2(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  const std::int64_t width = c.hidden_size;
  // Parity: older files hold the model without its "transformer." in front.
  const std::string root = weights.contains("wte.weight") ? "" : "transformer.";
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    return load.linear(transposed(weights.get(name + ".weight", {in, out}), 0, in), load.vector(name + ".bias", out));
  };
  DecoderParts parts = standard_ends(load, c, NormKind::kLayer, {.embedding = root + "wte", .norm = root + "ln_f"});
  parts.learned_positions =
      Embedding(weights, weights.get(root + "wpe.weight", {c.max_position_embeddings, width}), dtype);
  const bool scaled = json_bool(c.raw, "scale_attn_weights", true, c.name);
  const bool by_layer = json_bool(c.raw, "scale_attn_by_inverse_layer_idx", false, c.name);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("{}h.{}.", root, i);
    AttentionParts heads = attention_sizes(c);
    heads.rope.reset();
    if (!scaled) heads.scale = 1.0f;
    if (by_layer) heads.scale /= static_cast<float>(i + 1);
    heads.qkv = linear(layer + "attn.c_attn", width, 3 * width);
    heads.output = linear(layer + "attn.c_proj", width, width);
    const auto norm = [&](const char* name) {
      return Norm(load, layer + name, width, c.rms_norm_eps, NormKind::kLayer);
    };
    parts.layers.push_back(pre_norm_layer(norm("ln_1"), attention(std::move(heads)), norm("ln_2"),
                                          plain_feed_forward(linear(layer + "mlp.c_fc", width, c.intermediate_size),
                                                             linear(layer + "mlp.c_proj", c.intermediate_size, width),
                                                             ops::activation_of(c.hidden_act))));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
