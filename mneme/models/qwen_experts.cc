#include "mneme/models/qwen_experts.h"

#include <algorithm>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/experts.h"
#include "mneme/models/feed_forward.h"

namespace mneme {
namespace {

bool is_sparse(const ModelConfig& c, std::int64_t i) {
  const Json& dense = c.raw.at("mlp_only_layers");
  check(dense.is_array() || dense.is_null(), ErrorKind::kCorruptData, "{}: \"mlp_only_layers\" must be a list", c.name);
  const bool listed = std::ranges::any_of(dense, [&](const Json& layer) { return layer == i; });
  return !listed && (i + 1) % ConfigKeys{c.raw, c.name}.size("decoder_sparse_step", 1) == 0;
}

}  // namespace

std::unique_ptr<const Sublayer> qwen_feed_forward(const Loader& load, const ModelConfig& c, std::int64_t i,
                                                  const std::string& prefix) {
  if (!is_sparse(c, i)) return standard_feed_forward(load, c, prefix);
  const ConfigKeys keys{c.raw, c.name};
  RouterOptions routing = router_options(c, keys.has("num_experts") ? "num_experts" : "num_local_experts");
  routing.normalized = json_bool(c.raw, "norm_topk_prob", false, c.name);
  ExpertsParts parts = standard_experts(load, c, prefix, keys.size("moe_intermediate_size"), routing);
  if (const std::int64_t inner = keys.size("shared_expert_intermediate_size"); inner > 0) {
    parts.shared = standard_feed_forward(load, c, prefix + "shared_expert.", inner, /*bias=*/false);
    parts.shared_gate = load.linear({{prefix + "shared_expert_gate", 1}}, c.hidden_size);
  }
  return experts(std::move(parts));
}

}  // namespace mneme
