#include "mneme/ops/norm.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {

void rms_norm(Workspace& workspace, const Rows& x, const at::Tensor& weight, float eps, const Rows& y) {
  check(x.n == y.n && x.width == y.width && weight.numel() == x.width, ErrorKind::kInvalidArgument,
        "rms_norm: x [{}, {}], y [{}, {}] and weight [{}] do not fit", x.n, x.width, y.n, y.width, weight.numel());
  if (!workspace.uses_kernels()) {
    const at::Tensor input = as_tensor(workspace, x);
    const at::Tensor inverse = at::rsqrt(input.square().mean(-1, /*keepdim=*/true) + eps);
    as_tensor(workspace, y).copy_(input * inverse * weight);
    return;
  }
  const auto kernel = kernels::active().rms_norm;
  const float* scale = weight.const_data_ptr<float>();
  parallel_rows(x.n, x.width, [&](std::int64_t i) noexcept { kernel(x.row(i), scale, eps, x.width, y.row(i)); });
}

}  // namespace mneme::ops
