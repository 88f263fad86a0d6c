#include "mneme/models/mamba2_mixer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/models/loading.h"
#include "mneme/models/state_weights.h"
#include "mneme/ops/conv.h"
#include "mneme/ops/matrix_scan.h"
#include "mneme/ops/norm.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

ops::MatrixScanOptions scan_options(const Mamba2Options& o, const at::Tensor& skip = {}) {
  return {.n_heads = o.n_heads, .n_key_heads = o.n_groups, .n_keys = o.n_states, .head_dim = o.head_dim, .skip = skip};
}

class Mamba2Mixer final : public Sublayer {
 public:
  Mamba2Mixer(const Loader& load, const Mamba2Options& options, const std::string& prefix, std::int64_t width)
      : o_(options) {
    const std::int64_t channels = o_.channels(), convolved = o_.conv_channels();
    // The file has gates, what is convolved, time steps. Gates come last here: a recorded past does without them.
    const StoredTensor& stored =
        load.weights.get(prefix + "in_proj.weight", {channels + convolved + o_.n_heads, width});
    at::Tensor bias;
    if (o_.bias) {
      const at::Tensor b = load.vector(prefix + "in_proj.bias", stored.rows());
      bias = at::cat({b.narrow(0, channels, convolved + o_.n_heads), b.narrow(0, 0, channels)});
    }
    in_ = load.linear(joined({rows_of(stored, channels, convolved + o_.n_heads), rows_of(stored, 0, channels)}), bias);
    scales_ = column_scales(load.device);
    conv_ = {.taps = taps_of(load.matrix(prefix + "conv1d.weight", {convolved, 1, o_.conv_taps})),
             .bias = o_.conv_bias ? load.vector(prefix + "conv1d.bias", convolved) : at::Tensor(),
             .silu = true};
    gates_ = {.bias = load.vector(prefix + "dt_bias", o_.n_heads),
              .a = decay_of(load.vector(prefix + "A_log", o_.n_heads)),
              .least = o_.least_time_step,
              .most = o_.most_time_step};
    skip_ = load.vector(prefix + "D", o_.n_heads);
    if (o_.normalized) norm_ = load.vector(prefix + "norm.weight", channels);
    ones_ = at::ones({channels / o_.n_groups}, at::TensorOptions(at::kFloat).device(load.device));
    out_ = load.linear({{prefix + "out_proj", width}}, channels, o_.output_bias);
  }

  std::int64_t n_bytes() const override {
    return in_.n_bytes() + out_.n_bytes() + static_cast<std::int64_t>(conv_.taps.nbytes());
  }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows projected = ops::scratch_rows(workspace, x.n, in_.out_features());
    const ops::Rows mixed = ops::scratch_rows(workspace, x.n, o_.channels());
    in_.forward(workspace, x, projected);
    if (scales_.defined()) ops::scale_columns(workspace, scales_, projected);
    StateLayer& states = cache.state();
    states.advance(workspace, pass.batch.row_starts, projected, mixed,
                   [&](std::span<const ops::StateRun> runs, const ops::Rows& inputs, const ops::Rows& out) {
                     recur(workspace, states, runs, inputs, out);
                   });
    if (norm_.defined() && o_.norm_before_gate) normalize(workspace, mixed);
    ops::multiply_silu(workspace, projected, o_.conv_channels() + o_.n_heads, mixed);
    if (norm_.defined() && !o_.norm_before_gate) normalize(workspace, mixed);
    out_.forward(workspace, mixed, y);
  }

 private:
  at::Tensor column_scales(at::Device device) const {
    if (std::ranges::all_of(o_.multipliers, [](double m) { return m == 1; })) return {};
    const auto options = at::TensorOptions(at::kFloat).device(device);
    const std::int64_t states = o_.n_groups * o_.n_states, channels = o_.channels();
    std::vector<at::Tensor> parts;
    const std::pair<std::int64_t, double> columns[] = {{channels, o_.multipliers[1]},
                                                       {states, o_.multipliers[2]},
                                                       {states, o_.multipliers[3]},
                                                       {o_.n_heads, o_.multipliers[4]},
                                                       {channels, o_.multipliers[0]}};
    for (const auto& [n, factor] : columns) parts.push_back(at::full({n}, factor, options));
    return at::cat(parts);
  }

  void recur(ops::Workspace& workspace, const StateLayer& states, std::span<const ops::StateRun> runs,
             const ops::Rows& inputs, const ops::Rows& out) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows vbc = ops::scratch_rows(workspace, inputs.n, o_.conv_channels());
    const ops::Rows gates = ops::scratch_rows(workspace, inputs.n, 2 * o_.n_heads);
    ops::causal_conv(workspace, runs, states.offset(0), inputs, conv_, vbc);
    ops::time_step_gates(workspace, inputs, o_.conv_channels(), gates_, gates);
    const std::int64_t b = o_.channels(), c = b + o_.n_groups * o_.n_states;
    ops::matrix_scan(workspace, runs, states.offset(1),
                     {.x = vbc, .k_offset = b, .q_offset = c, .v_offset = 0, .gates = gates}, scan_options(o_, skip_),
                     out);
  }

  void normalize(ops::Workspace& workspace, const ops::Rows& x) const {
    const auto eps = static_cast<float>(o_.eps);
    if (o_.n_groups == 1) return ops::rms_norm(workspace, x, norm_, eps, x);
    ops::rms_norm_heads(workspace, ones_, eps, x, 0, o_.n_groups);
    ops::scale_columns(workspace, norm_, x);
  }

  Mamba2Options o_;
  ops::Linear in_;     // what is convolved, time steps, gates
  at::Tensor scales_;  // of its columns, or undefined
  ops::ConvWeights conv_;
  ops::GateWeights gates_;
  at::Tensor skip_, norm_, ones_;
  ops::Linear out_;
};

}  // namespace

StateShape Mamba2Options::state_shape() const {
  return {.sizes = {(conv_taps - 1) * conv_channels(), ops::matrix_state_floats(scan_options(*this))},
          .input_width = conv_channels() + n_heads};
}

void Mamba2Options::check(const std::string& name) const {
  mneme::check(n_heads % n_groups == 0, ErrorKind::kCorruptData, "{}: heads and groups do not divide: {} by {}", name,
               n_heads, n_groups);
  mneme::check(conv_taps >= 2 && conv_taps <= ops::kMaxTaps, ErrorKind::kUnsupported,
               "{}: a convolution over {} tokens, 2 to {} are supported", name, conv_taps, ops::kMaxTaps);
}

void read_time_step_limit(const ModelConfig& c, Mamba2Options& options) {
  const Json& limit = c.raw.at("time_step_limit");
  if (limit.is_null()) return;
  check(limit.is_array() && limit.size() == 2 && limit[0].is_number(), ErrorKind::kCorruptData,
        "{}: \"time_step_limit\" must be two numbers", c.name);
  options.least_time_step = limit[0].get<float>();
  // Parity: infinity is written as {"__float__": "Infinity"}.
  if (limit[1].is_number()) options.most_time_step = limit[1].get<float>();
}

std::unique_ptr<const Sublayer> mamba2_mixer(const Loader& load, const Mamba2Options& options,
                                             const std::string& prefix, std::int64_t hidden_size) {
  return std::make_unique<Mamba2Mixer>(load, options, prefix, hidden_size);
}

}  // namespace mneme
