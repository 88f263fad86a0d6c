#include "mneme/models/experts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/config_keys.h"
#include "mneme/ops/parallel.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

class Experts final : public Sublayer {
 public:
  explicit Experts(ExpertsParts parts) : p_(std::move(parts)) {}

  std::int64_t n_bytes() const override {
    return p_.router.n_bytes() + p_.gate_up.n_bytes() + p_.down.n_bytes() + p_.shared_gate.n_bytes() +
           (p_.shared ? p_.shared->n_bytes() : 0);
  }

  /// In slices of rows, which bound the memory that a long prompt takes and change no bit.
  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    constexpr std::int64_t kRowsAtOnce = 1024;
    for (std::int64_t first = 0; first < x.n; first += kRowsAtOnce) {
      const std::int64_t n = std::min(kRowsAtOnce, x.n - first);
      mix(pass.workspace, {x.row(first), n, x.width}, {y.row(first), n, y.width});
    }
    if (p_.shared) add_shared(pass, cache, x, y);
  }

 private:
  /// Where the slots of tokens lie once they are sorted by expert.
  struct Order {
    std::span<std::int64_t> starts;  // [n_experts + 1]
    std::span<std::int64_t> places;  // [n * n_chosen] of slot token * n_chosen + rank
    std::span<std::int64_t> tokens;  // [n * n_chosen] whose row lies at a place
  };

  Order sorted(ops::Workspace& workspace, const Routes& routes, std::int64_t n) const {
    const std::int64_t slots = n * p_.routing.n_chosen, groups = p_.routing.n_experts;
    const auto longs = [&](std::int64_t count) {
      return std::span(reinterpret_cast<std::int64_t*>(workspace.host_bytes(count * 8)),
                       static_cast<std::size_t>(count));
    };
    const Order order{longs(groups + 1), longs(slots), longs(slots)};
    std::ranges::fill(order.starts, 0);
    for (std::int64_t i = 0; i < slots; ++i) ++order.starts[static_cast<std::size_t>(routes.experts[i]) + 1];
    for (std::size_t g = 1; g < order.starts.size(); ++g) order.starts[g] += order.starts[g - 1];
    const auto next = longs(groups);
    std::copy_n(order.starts.begin(), groups, next.begin());
    for (std::int64_t i = 0; i < slots; ++i) {
      const std::int64_t place = next[static_cast<std::size_t>(routes.experts[i])]++;
      order.places[static_cast<std::size_t>(i)] = place;
      order.tokens[static_cast<std::size_t>(place)] = i / p_.routing.n_chosen;
    }
    return order;
  }

  void mix(ops::Workspace& workspace, const ops::Rows& x, const ops::Rows& y) const {
    const ops::Workspace::Scope scope(workspace);
    const std::int64_t slots = x.n * p_.routing.n_chosen, inner = p_.down.in_features();
    const ops::Rows logits = ops::scratch_rows(workspace, x.n, p_.routing.n_experts);
    p_.router.forward(workspace, normalized(workspace, p_.router_norm, x), logits);
    const Routes routes = route(workspace, p_.routing, logits);
    const Order order = sorted(workspace, routes, x.n);
    const ops::Rows in = ops::scratch_rows(workspace, slots, x.width),
                    out = ops::scratch_rows(workspace, slots, y.width);
    const ops::Rows gate_up = ops::scratch_rows(workspace, slots, 2 * inner);
    const ops::Rows active = ops::scratch_rows(workspace, slots, inner);
    ops::select_rows(workspace, normalized(workspace, p_.expert_norm, x), order.tokens, in);
    if (p_.weighs_input) ops::scale_rows(workspace, weights_by_place(workspace, routes, order), 0, in.width, in);
    p_.gate_up.forward(workspace, in, order.starts, gate_up);
    if (p_.clamped) {
      ops::clamped_swiglu(workspace, p_.clamped->alpha, p_.clamped->limit, gate_up, active);
    } else {
      ops::gated(workspace, p_.activation, gate_up, active);
    }
    p_.down.forward(workspace, active, order.starts, out);
    if (!p_.weighs_input) ops::scale_rows(workspace, weights_by_place(workspace, routes, order), 0, out.width, out);
    ops::sum_rows(workspace, out, order.places, y);
  }

  static ops::Rows normalized(ops::Workspace& workspace, const Norm& norm, const ops::Rows& x) {
    if (!norm) return x;
    const ops::Rows y = ops::scratch_rows(workspace, x.n, x.width);
    norm.forward(workspace, x, y);
    return y;
  }

  static const float* weights_by_place(ops::Workspace& workspace, const Routes& routes, const Order& order) {
    auto* weights = reinterpret_cast<float*>(workspace.host_bytes(std::ssize(order.places) * 4));
    for (std::size_t i = 0; i < order.places.size(); ++i) weights[order.places[i]] = routes.weights[i];
    return weights;
  }

  void add_shared(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows shared = ops::scratch_rows(workspace, x.n, y.width);
    p_.shared->forward(pass, cache, x, shared);
    if (p_.shared_gate.out_features() == 1) {
      const ops::Rows gate = ops::scratch_rows(workspace, x.n, 1);
      p_.shared_gate.forward(workspace, x, gate);
      ops::scale_rows_by_sigmoid(workspace, gate, shared);
    }
    ops::add(workspace, shared, y);
  }

  ExpertsParts p_;
};

/// All experts' matrices of one name.
std::vector<WeightRows> matrices(const Loader& load, const std::string& prefix, const std::string& name,
                                 std::int64_t n_experts, std::int64_t out, std::int64_t in) {
  std::vector<WeightRows> result;
  const std::string stacked = fmt::format("{}experts.{}.weight", prefix, name);
  const bool together = load.weights.contains(stacked);
  for (std::int64_t e = 0; e < n_experts; ++e) {
    result.push_back(
        together ? rows_of(load.weights.get(stacked, {n_experts, out, in}), e * out, out)
                 : rows_of(load.weights.get(fmt::format("{}experts.{}.{}.weight", prefix, e, name), {out, in})));
  }
  return result;
}

}  // namespace

std::unique_ptr<const Sublayer> experts(ExpertsParts parts) { return std::make_unique<Experts>(std::move(parts)); }

RouterOptions router_options(const ModelConfig& c, const char* n_experts_key) {
  const ConfigKeys keys{c.raw, c.name};
  const RouterOptions options{.n_experts = keys.size(n_experts_key, 1, 65536),
                              .n_chosen = keys.size("num_experts_per_tok", 1, 65536)};
  check(options.n_chosen <= options.n_experts, ErrorKind::kCorruptData,
        "{}: \"num_experts_per_tok\" is {}, there are {} experts", c.name, options.n_chosen, options.n_experts);
  return options;
}

ExpertsParts standard_experts(const Loader& load, const ModelConfig& c, const std::string& prefix, std::int64_t inner,
                              const RouterOptions& routing, const ExpertNames& names) {
  const std::int64_t n = routing.n_experts;
  std::vector<WeightRows> gates = matrices(load, prefix, names.gate, n, inner, c.hidden_size);
  std::vector<WeightRows> ups = matrices(load, prefix, names.up, n, inner, c.hidden_size), both;
  for (std::size_t e = 0; e < gates.size(); ++e) {
    both.push_back(std::move(gates[e]));
    both.push_back(std::move(ups[e]));
  }
  const WeightRows down = joined(matrices(load, prefix, names.down, n, c.hidden_size, inner));
  ExpertsParts parts{.routing = routing, .activation = ops::activation_of(c.hidden_act)};
  parts.router = load.linear({{prefix + "gate", n}}, c.hidden_size);
  parts.gate_up = load.grouped(n, joined(std::move(both)));
  parts.down = load.grouped(n, down);
  return parts;
}

}  // namespace mneme
