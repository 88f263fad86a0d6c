#include "mneme/models/router.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Scores of one token. `scores` may be `logits`.
void score(const RouterOptions& o, const float* logits, float* scores) {
  const std::int64_t n = o.n_experts;
  if (o.sigmoid) return kernels::active().sigmoid(logits, n, scores);
  const float largest = *std::max_element(logits, logits + n);
  for (std::int64_t e = 0; e < n; ++e) scores[e] = logits[e] - largest;
  kernels::active().exp(scores, n, scores);
  float sum = 0;
  for (std::int64_t e = 0; e < n; ++e) sum += scores[e];
  for (std::int64_t e = 0; e < n; ++e) scores[e] /= sum;
}

std::int64_t best_of(const float* values, std::int64_t n) { return std::max_element(values, values + n) - values; }

/// Leaves out the experts of all but the best groups, a group being as good as its two best experts together.
void keep_best_groups(const RouterOptions& o, float* choice) {
  const std::int64_t size = o.n_experts / o.n_groups;
  std::vector<float> sums(static_cast<std::size_t>(o.n_groups));
  for (std::int64_t g = 0; g < o.n_groups; ++g) {
    float first = kNever, second = kNever;
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
      if (choice[e] > first)
        second = std::exchange(first, choice[e]);
      else
        second = std::max(second, choice[e]);
    }
    sums[static_cast<std::size_t>(g)] = size > 1 ? first + second : first;
  }
  std::vector<bool> kept(sums.size());
  for (std::int64_t i = 0; i < o.n_chosen_groups; ++i) {
    const std::int64_t g = best_of(sums.data(), o.n_groups);
    kept[static_cast<std::size_t>(g)] = true;
    sums[static_cast<std::size_t>(g)] = kNever;
  }
  for (std::int64_t e = 0; e < o.n_experts; ++e) {
    if (!kept[static_cast<std::size_t>(e / size)]) choice[e] = kNever;
  }
}

void route_token(const RouterOptions& o, const float* logits, float* scores, float* choice, std::int32_t* experts,
                 float* weights) {
  score(o, logits, scores);
  const float* bias = o.choice_bias.defined() ? o.choice_bias.const_data_ptr<float>() : nullptr;
  for (std::int64_t e = 0; e < o.n_experts; ++e) choice[e] = bias ? scores[e] + bias[e] : scores[e];
  if (o.n_chosen_groups < o.n_groups) keep_best_groups(o, choice);
  float sum = 0;
  for (std::int64_t r = 0; r < o.n_chosen; ++r) {
    const std::int64_t e = best_of(choice, o.n_experts);
    choice[e] = kNever;
    experts[r] = static_cast<std::int32_t>(e);
    weights[r] = scores[e];
    sum += scores[e];
  }
  const float factor = o.scale / (o.normalized ? sum + 1e-20f : 1.0f);
  for (std::int64_t r = 0; r < o.n_chosen; ++r) weights[r] *= factor;
  if (!o.expert_scales.defined()) return;
  const float* scales = o.expert_scales.const_data_ptr<float>();
  for (std::int64_t r = 0; r < o.n_chosen; ++r) weights[r] *= scales[experts[r]];
}

}  // namespace

Routes route(ops::Workspace& workspace, const RouterOptions& o, const ops::Rows& logits) {
  const std::int64_t n = logits.n, n_slots = n * o.n_chosen;
  const auto floats = [&](std::int64_t count) { return reinterpret_cast<float*>(workspace.host_bytes(count * 4)); };
  Routes routes{.experts = reinterpret_cast<std::int32_t*>(workspace.host_bytes(n_slots * 4)),
                .weights = floats(n_slots)};
  float* scores = floats(2 * n * o.n_experts);
  const float* source = logits.data;
  if (!workspace.device().is_cpu()) {
    at::from_blob(scores, {n, o.n_experts}, at::kFloat).copy_(ops::as_tensor(workspace, logits));
    source = scores;
  }
  ops::parallel_rows(n, (8 + o.n_chosen) * o.n_experts, [&](std::int64_t i) noexcept {
    float* own = scores + i * o.n_experts;
    route_token(o, source + i * o.n_experts, own, own + n * o.n_experts, routes.experts + i * o.n_chosen,
                routes.weights + i * o.n_chosen);
  });
  return routes;
}

}  // namespace mneme
