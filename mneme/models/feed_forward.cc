#include "mneme/models/feed_forward.h"

#include <utility>

#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

class GatedFeedForward final : public Sublayer {
 public:
  GatedFeedForward(ops::Linear gate_up, ops::Linear down, ops::Activation activation, at::Tensor scales)
      : gate_up_(std::move(gate_up)), down_(std::move(down)), activation_(activation), scales_(std::move(scales)) {}

  std::int64_t n_bytes() const override { return gate_up_.n_bytes() + down_.n_bytes(); }

  void forward(const Pass& pass, CacheLayer&, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows gate_up = ops::scratch_rows(workspace, x.n, gate_up_.out_features());
    const ops::Rows active = ops::scratch_rows(workspace, x.n, down_.in_features());
    gate_up_.forward(workspace, x, gate_up);
    if (scales_.defined()) ops::scale_columns(workspace, scales_, gate_up);
    ops::gated(workspace, activation_, gate_up, active);
    down_.forward(workspace, active, y);
  }

 private:
  ops::Linear gate_up_, down_;
  ops::Activation activation_;
  at::Tensor scales_;  // [2 I] of gates and ups, or undefined
};

class PlainFeedForward final : public Sublayer {
 public:
  PlainFeedForward(ops::Linear up, ops::Linear down, ops::Activation activation)
      : up_(std::move(up)), down_(std::move(down)), activation_(activation) {}

  std::int64_t n_bytes() const override { return up_.n_bytes() + down_.n_bytes(); }

  void forward(const Pass& pass, CacheLayer&, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows wide = ops::scratch_rows(workspace, x.n, up_.out_features());
    up_.forward(workspace, x, wide);
    ops::activate(workspace, activation_, wide);
    down_.forward(workspace, wide, y);
  }

 private:
  ops::Linear up_, down_;
  ops::Activation activation_;
};

}  // namespace

std::unique_ptr<const Sublayer> gated_feed_forward(ops::Linear gate_up, ops::Linear down, ops::Activation activation,
                                                   float gate_scale) {
  at::Tensor scales;
  if (gate_scale != 1.0f) {
    scales = at::ones({gate_up.out_features()}, at::TensorOptions(at::kFloat).device(gate_up.device()));
    scales.narrow(0, 0, gate_up.out_features() / 2).fill_(gate_scale);
  }
  return std::make_unique<GatedFeedForward>(std::move(gate_up), std::move(down), activation, std::move(scales));
}

std::unique_ptr<const Sublayer> plain_feed_forward(ops::Linear up, ops::Linear down, ops::Activation activation) {
  return std::make_unique<PlainFeedForward>(std::move(up), std::move(down), activation);
}

std::unique_ptr<const Sublayer> standard_feed_forward(const Loader& load, const ModelConfig& c,
                                                      const std::string& prefix, bool bias) {
  return standard_feed_forward(load, c, prefix, c.intermediate_size, bias);
}

std::unique_ptr<const Sublayer> standard_feed_forward(const Loader& load, const ModelConfig& c,
                                                      const std::string& prefix, std::int64_t inner, bool bias) {
  return gated_feed_forward(
      load.linear({{prefix + "gate_proj", inner}, {prefix + "up_proj", inner}}, c.hidden_size, bias),
      load.linear({{prefix + "down_proj", c.hidden_size}}, inner, bias), ops::activation_of(c.hidden_act));
}

}  // namespace mneme
