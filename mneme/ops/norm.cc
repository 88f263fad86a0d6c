#include "mneme/ops/norm.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {

namespace {

at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight, float eps) {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps) * weight;
}

}  // namespace

void rms_norm(Workspace& workspace, const Rows& x, const at::Tensor& weight, float eps, const Rows& y) {
  check(x.n == y.n && x.width == y.width && weight.numel() == x.width, ErrorKind::kInvalidArgument,
        "rms_norm: x [{}, {}], y [{}, {}] and weight [{}] do not fit", x.n, x.width, y.n, y.width, weight.numel());
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, y).copy_(normalized(as_tensor(workspace, x), weight, eps));
    return;
  }
  const auto kernel = kernels::active().rms_norm;
  const float* scale = weight.const_data_ptr<float>();
  parallel_rows(x.n, x.width, [&](std::int64_t i) noexcept { kernel(x.row(i), scale, eps, x.width, y.row(i)); });
}

void layer_norm(Workspace& workspace, const Rows& x, const at::Tensor& weight, const at::Tensor& bias, float eps,
                const Rows& y) {
  check(x.n == y.n && x.width == y.width && weight.numel() == x.width && bias.numel() == x.width,
        ErrorKind::kInvalidArgument, "layer_norm: x [{}, {}], y [{}, {}], weight [{}] and bias [{}] do not fit", x.n,
        x.width, y.n, y.width, weight.numel(), bias.numel());
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, y).copy_(at::layer_norm(as_tensor(workspace, x), {x.width}, weight, bias, eps));
    return;
  }
  const auto kernel = kernels::active().layer_norm;
  const float *scale = weight.const_data_ptr<float>(), *shift = bias.const_data_ptr<float>();
  parallel_rows(x.n, x.width, [&](std::int64_t i) noexcept { kernel(x.row(i), scale, shift, eps, x.width, y.row(i)); });
}

void rms_norm_heads(Workspace& workspace, const at::Tensor& weight, float eps, const Rows& x, std::int64_t offset,
                    std::int64_t n_heads) {
  const std::int64_t dim = weight.numel();
  check(offset >= 0 && offset + n_heads * dim <= x.width, ErrorKind::kInvalidArgument,
        "rms_norm: {} heads of {} at {} do not fit rows of {}", n_heads, dim, offset, x.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor heads = as_tensor(workspace, x).narrow(1, offset, n_heads * dim).view({x.n, n_heads, dim});
    heads.copy_(normalized(heads, weight, eps));
    return;
  }
  const auto kernel = kernels::active().rms_norm;
  const float* scale = weight.const_data_ptr<float>();
  parallel_rows(x.n, n_heads * dim, [&](std::int64_t i) noexcept {
    for (std::int64_t h = 0; h < n_heads; ++h) {
      float* head = x.row(i) + offset + h * dim;
      kernel(head, scale, eps, dim, head);
    }
  });
}

}  // namespace mneme::ops
