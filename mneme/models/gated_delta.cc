#include "mneme/models/gated_delta.h"

#include <cmath>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/state_weights.h"
#include "mneme/ops/conv.h"
#include "mneme/ops/matrix_scan.h"
#include "mneme/ops/norm.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

ops::MatrixScanOptions scan_options(const GatedDeltaSizes& s) {
  return {.n_heads = s.n_value_heads,
          .n_key_heads = s.n_key_heads,
          .n_keys = s.key_dim,
          .head_dim = s.value_dim,
          .delta = true};
}

/// Where the file keeps rows of a projection that is written head by head of the keys: `parts` numbers of rows for each
/// head, of which part k of all heads comes out in one piece.
std::vector<std::int64_t> piece(std::int64_t n_heads, const std::vector<std::int64_t>& parts, std::size_t k) {
  std::int64_t before = 0, whole = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i < k) before += parts[i];
    whole += parts[i];
  }
  std::vector<std::int64_t> order;
  for (std::int64_t h = 0; h < n_heads; ++h) {
    for (std::int64_t r = 0; r < parts[k]; ++r) order.push_back(h * whole + before + r);
  }
  return order;
}

class GatedDelta final : public Sublayer {
 public:
  GatedDelta(const Loader& load, const ModelConfig& c, const std::string& prefix)
      : s_(c), eps_(static_cast<float>(c.rms_norm_eps)) {
    const std::int64_t shared = s_.n_value_heads / s_.n_key_heads;
    const std::vector<std::int64_t> qkvz = {s_.key_dim, s_.key_dim, shared * s_.value_dim, shared * s_.value_dim};
    const std::vector<std::int64_t> ba = {shared, shared};
    const StoredTensor& mixed =
        load.weights.get(prefix + "in_proj_qkvz.weight", {2 * s_.keys() + 2 * s_.values(), c.hidden_size});
    const StoredTensor& gates = load.weights.get(prefix + "in_proj_ba.weight", {2 * s_.n_value_heads, c.hidden_size});
    std::vector<WeightRows> rows;
    for (const std::size_t k : {0u, 1u, 2u}) rows.push_back(picked(rows_of(mixed), piece(s_.n_key_heads, qkvz, k)));
    for (const std::size_t k : {0u, 1u}) rows.push_back(picked(rows_of(gates), piece(s_.n_key_heads, ba, k)));
    rows.push_back(picked(rows_of(mixed), piece(s_.n_key_heads, qkvz, 3)));
    in_ = load.linear(joined(std::move(rows)));
    conv_ = {.taps = taps_of(load.matrix(prefix + "conv1d.weight", {s_.channels(), 1, s_.conv_taps})),
             .bias = {},
             .silu = true};
    gates_ = {.bias = load.vector(prefix + "dt_bias", s_.n_value_heads),
              .a = decay_of(load.vector(prefix + "A_log", s_.n_value_heads))};
    norm_ = load.vector(prefix + "norm.weight", s_.value_dim);
    // Heads of queries and keys are brought to length 1, queries also divided by the root of their size: RMS norms with
    // these weights.
    const double root = std::sqrt(static_cast<double>(s_.key_dim));
    const auto options = at::TensorOptions(at::kFloat).device(load.device);
    query_length_ = at::full({s_.key_dim}, 1 / (root * root), options);
    key_length_ = at::full({s_.key_dim}, 1 / root, options);
    out_ = load.linear({{prefix + "out_proj", c.hidden_size}}, s_.values());
  }

  std::int64_t n_bytes() const override {
    return in_.n_bytes() + out_.n_bytes() + static_cast<std::int64_t>(conv_.taps.nbytes());
  }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows projected = ops::scratch_rows(workspace, x.n, in_.out_features());
    const ops::Rows mixed = ops::scratch_rows(workspace, x.n, s_.values());
    in_.forward(workspace, x, projected);
    StateLayer& states = cache.state();
    states.advance(workspace, pass.batch.row_starts, projected, mixed,
                   [&](std::span<const ops::StateRun> runs, const ops::Rows& inputs, const ops::Rows& out) {
                     recur(workspace, states, runs, inputs, out);
                   });
    ops::rms_norm_heads(workspace, norm_, eps_, mixed, 0, s_.n_value_heads);
    ops::multiply_silu(workspace, projected, s_.channels() + 2 * s_.n_value_heads, mixed);
    out_.forward(workspace, mixed, y);
  }

 private:
  void recur(ops::Workspace& workspace, const StateLayer& states, std::span<const ops::StateRun> runs,
             const ops::Rows& inputs, const ops::Rows& out) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows qkv = ops::scratch_rows(workspace, inputs.n, s_.channels());
    const ops::Rows gates = ops::scratch_rows(workspace, inputs.n, 2 * s_.n_value_heads);
    ops::causal_conv(workspace, runs, states.offset(0), inputs, conv_, qkv);
    const float eps = 1e-6f / static_cast<float>(s_.key_dim);  // of the sum of squares, as the reference has it
    ops::rms_norm_heads(workspace, query_length_, eps, qkv, 0, s_.n_key_heads);
    ops::rms_norm_heads(workspace, key_length_, eps, qkv, s_.keys(), s_.n_key_heads);
    ops::delta_gates(workspace, inputs, s_.channels(), gates_, gates);
    ops::matrix_scan(workspace, runs, states.offset(1),
                     {.x = qkv, .k_offset = s_.keys(), .q_offset = 0, .v_offset = 2 * s_.keys(), .gates = gates},
                     scan_options(s_), out);
  }

  GatedDeltaSizes s_;
  float eps_;
  ops::Linear in_;  // queries, keys, values, b, a, z
  ops::ConvWeights conv_;
  ops::GateWeights gates_;
  at::Tensor norm_, query_length_, key_length_;
  ops::Linear out_;
};

}  // namespace

GatedDeltaSizes::GatedDeltaSizes(const ModelConfig& c)
    : n_key_heads(ConfigKeys{c.raw, c.name}.size("linear_num_key_heads")),
      n_value_heads(ConfigKeys{c.raw, c.name}.size("linear_num_value_heads")),
      key_dim(ConfigKeys{c.raw, c.name}.size("linear_key_head_dim")),
      value_dim(ConfigKeys{c.raw, c.name}.size("linear_value_head_dim")),
      conv_taps(ConfigKeys{c.raw, c.name}.size("linear_conv_kernel_dim")) {
  check(n_key_heads > 0 && n_value_heads % n_key_heads == 0, ErrorKind::kCorruptData,
        "{}: linear value and key heads do not divide: {} by {}", c.name, n_value_heads, n_key_heads);
  check(conv_taps >= 2 && conv_taps <= ops::kMaxTaps, ErrorKind::kUnsupported,
        "{}: \"linear_conv_kernel_dim\" is {}, 2 to {} are supported", c.name, conv_taps, ops::kMaxTaps);
  check(c.hidden_act == "silu" || c.hidden_act == "swish", ErrorKind::kUnsupported,
        "{}: \"hidden_act\" is \"{}\", linear attention knows silu only", c.name, c.hidden_act);
}

StateShape GatedDeltaSizes::state_shape() const {
  return {.sizes = {(conv_taps - 1) * channels(), ops::matrix_state_floats(scan_options(*this))},
          .input_width = channels() + 2 * n_value_heads};
}

std::unique_ptr<const Sublayer> gated_delta(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  return std::make_unique<GatedDelta>(load, c, prefix);
}

}  // namespace mneme
