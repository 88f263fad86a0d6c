#include "mneme/ops/activation.h"

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

at::Tensor activated(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kRelu: return at::relu(x);
    case Activation::kSilu: return at::silu(x);
    case Activation::kGeluTanh: return at::gelu(x, "tanh");
    case Activation::kGelu: return at::gelu(x, "none");
  }
  return x;
}

auto kernel_of(Activation activation) {
  const kernels::Table& table = kernels::active();
  return activation == Activation::kRelu       ? table.relu_multiply
         : activation == Activation::kSilu     ? table.silu_multiply
         : activation == Activation::kGeluTanh ? table.gelu_tanh_multiply
                                               : table.gelu_erf_multiply;
}

}  // namespace

Activation activation_of(const std::string& hidden_act) {
  if (hidden_act == "relu") return Activation::kRelu;
  if (hidden_act == "silu" || hidden_act == "swish") return Activation::kSilu;
  if (hidden_act == "gelu_pytorch_tanh" || hidden_act == "gelu_new") return Activation::kGeluTanh;
  if (hidden_act == "gelu") return Activation::kGelu;
  throw Error(ErrorKind::kUnsupported,
              "the activation \"{}\" is not supported; there are relu, silu, gelu_pytorch_tanh and gelu", hidden_act);
}

void gated(Workspace& workspace, Activation activation, const Rows& gate_up, const Rows& y) {
  check(gate_up.n == y.n && gate_up.width == 2 * y.width, ErrorKind::kInvalidArgument,
        "gated activation: [{}, {}] does not give [{}, {}]", gate_up.n, gate_up.width, y.n, y.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor both = as_tensor(workspace, gate_up);
    const at::Tensor gate = both.narrow(1, 0, y.width), up = both.narrow(1, y.width, y.width);
    as_tensor(workspace, y).copy_(activated(activation, gate) * up);
    return;
  }
  const auto kernel = kernel_of(activation);
  parallel_rows(y.n, 4 * y.width,
                [&](std::int64_t i) noexcept { kernel(gate_up.row(i), gate_up.row(i) + y.width, y.width, y.row(i)); });
}

void activate(Workspace& workspace, Activation activation, const Rows& x) {
  if (!workspace.uses_kernels()) {
    const at::Tensor all = as_tensor(workspace, x);
    all.copy_(activated(activation, all));
    return;
  }
  const auto kernel = kernel_of(activation);
  parallel_rows(x.n, 4 * x.width, [&](std::int64_t i) noexcept { kernel(x.row(i), nullptr, x.width, x.row(i)); });
}

void add(Workspace& workspace, const Rows& x, const Rows& y) {
  check(x.n == y.n && x.width == y.width, ErrorKind::kInvalidArgument, "add: [{}, {}] and [{}, {}] differ", x.n,
        x.width, y.n, y.width);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, y).add_(as_tensor(workspace, x));
    return;
  }
  const auto kernel = kernels::active().add;
  parallel_rows(x.n, x.width, [&](std::int64_t i) noexcept { kernel(x.row(i), x.width, y.row(i)); });
}

}  // namespace mneme::ops
