#include "mneme/models/norm.h"

#include "mneme/ops/norm.h"

namespace mneme {

Norm::Norm(const Loader& load, const std::string& name, std::int64_t n, double eps, NormKind kind)
    : weight_(load.vector(name + ".weight", n)), eps_(static_cast<float>(eps)) {
  if (kind == NormKind::kRmsOnePlus) weight_ = weight_ + 1;
  if (kind == NormKind::kLayer) bias_ = load.vector(name + ".bias", n);
}

Norm::Norm(std::int64_t n, double eps, at::Device device)
    : weight_(at::ones({n}, at::TensorOptions(at::kFloat).device(device))), eps_(static_cast<float>(eps)) {}

void Norm::forward(ops::Workspace& workspace, const ops::Rows& x, const ops::Rows& y) const {
  if (bias_.defined()) {
    ops::layer_norm(workspace, x, weight_, bias_, eps_, y);
  } else {
    ops::rms_norm(workspace, x, weight_, eps_, y);
  }
}

void Norm::heads(ops::Workspace& workspace, const ops::Rows& x, std::int64_t offset, std::int64_t width) const {
  ops::rms_norm_heads(workspace, weight_, eps_, x, offset, width / weight_.numel());
}

}  // namespace mneme
