#include "mneme/ops/activation.h"

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {

Activation activation_of(const std::string& hidden_act) {
  if (hidden_act == "silu" || hidden_act == "swish") return Activation::kSilu;
  if (hidden_act == "gelu_pytorch_tanh" || hidden_act == "gelu_new") return Activation::kGeluTanh;
  if (hidden_act == "gelu") return Activation::kGelu;
  throw Error(ErrorKind::kUnsupported, "hidden_act \"{}\" is not supported; there are silu, gelu_pytorch_tanh and gelu",
              hidden_act);
}

void gated(Workspace& workspace, Activation activation, const Rows& gate_up, const Rows& y) {
  check(gate_up.n == y.n && gate_up.width == 2 * y.width, ErrorKind::kInvalidArgument,
        "gated activation: [{}, {}] does not give [{}, {}]", gate_up.n, gate_up.width, y.n, y.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor both = as_tensor(workspace, gate_up);
    const at::Tensor gate = both.narrow(1, 0, y.width), up = both.narrow(1, y.width, y.width);
    const at::Tensor active = activation == Activation::kSilu
                                  ? at::silu(gate)
                                  : at::gelu(gate, activation == Activation::kGeluTanh ? "tanh" : "none");
    as_tensor(workspace, y).copy_(active * up);
    return;
  }
  const kernels::Table& table = kernels::active();
  const auto kernel = activation == Activation::kSilu       ? table.silu_multiply
                      : activation == Activation::kGeluTanh ? table.gelu_tanh_multiply
                                                            : table.gelu_erf_multiply;
  parallel_rows(y.n, 4 * y.width,
                [&](std::int64_t i) noexcept { kernel(gate_up.row(i), gate_up.row(i) + y.width, y.width, y.row(i)); });
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
