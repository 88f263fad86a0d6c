#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/experts.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/latent_attention.h"

namespace mneme {
namespace {

/// Scores are sigmoids; a bias that training balanced them with takes part in the choice alone, among the best groups.
std::unique_ptr<const Sublayer> load_experts(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  const ConfigKeys keys{c.raw, c.name};
  const std::int64_t inner = keys.size("moe_intermediate_size");
  RouterOptions routing = router_options(c, "n_routed_experts");
  routing.sigmoid = true;
  routing.normalized = json_bool(c.raw, "norm_topk_prob", true, c.name);
  routing.scale = static_cast<float>(keys.positive("routed_scaling_factor", 1.0));
  routing.n_groups = keys.size("n_group", 1);
  routing.n_chosen_groups = keys.size("topk_group", 1);
  check(routing.n_experts % routing.n_groups == 0 && routing.n_chosen_groups <= routing.n_groups &&
            routing.n_chosen <= routing.n_experts / routing.n_groups * routing.n_chosen_groups,
        ErrorKind::kCorruptData, "{}: {} experts in {} groups, of which {} are taken, do not give {}", c.name,
        routing.n_experts, routing.n_groups, routing.n_chosen_groups, routing.n_chosen);
  routing.choice_bias =
      load_vector(load.weights, prefix + "gate.e_score_correction_bias", routing.n_experts, DType::kFloat32, at::kCPU);
  ExpertsParts parts = standard_experts(load, c, prefix, inner, routing);
  parts.shared = standard_feed_forward(load, c, prefix + "shared_experts.", inner * keys.size("n_shared_experts", 1),
                                       /*bias=*/false);
  return experts(std::move(parts));
}

}  // namespace

CacheShape deepseek_v3_cache_shape(const ModelConfig& c, DType dtype, at::Device device) {
  return {
      .layers = std::vector<LayerShape>(static_cast<std::size_t>(c.num_hidden_layers), LatentSizes(c).layer_shape()),
      .dtype = dtype,
      .device = device};
}

// DeepSeek-V3 and R1: latent attention, and experts chosen by groups beside shared ones (arXiv:2412.19437).
std::unique_ptr<Model> build_deepseek_v3(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c);
  const std::int64_t first_sparse = json_int(c.raw, "first_k_dense_replace", 0, c.name);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    parts.layers.push_back(pre_norm_layer(
        load, c, layer, latent_attention(load, c, layer + "self_attn."),
        i < first_sparse ? standard_feed_forward(load, c, layer + "mlp.") : load_experts(load, c, layer + "mlp.")));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
