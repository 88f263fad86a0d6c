#include "mneme/ops/hadamard.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/kernels/code_kernels.h"

namespace mneme::ops {
namespace {

/// The largest power of two that divides dim.
std::int64_t run_of(std::int64_t dim) { return dim & -dim; }

void rotate_row(float* x, std::int64_t width, std::int64_t dim) {
  const auto hadamard = kernels::active().codes->hadamard;
  for (std::int64_t i = 0; i < width; i += dim) hadamard(x + i, dim);
}

/// [m, m] with the kernel's numbers, for devices that we have no kernel for.
at::Tensor matrix(std::int64_t m, at::Device device) {
  at::Tensor identity = at::eye(m, at::kFloat);
  rotate_row(identity.mutable_data_ptr<float>(), m * m, m);
  return identity.to(device);
}

}  // namespace

void rotate_heads(Workspace& workspace, const Rows& x, std::int64_t n_heads, std::int64_t dim) {
  check(x.width == n_heads * dim, ErrorKind::kInvalidArgument, "rotate: rows of width {} are not {} heads of {}",
        x.width, n_heads, dim);
  if (!workspace.uses_kernels()) {
    const std::int64_t run = run_of(dim);
    at::Tensor all = as_tensor(workspace, x);
    all.copy_(at::matmul(all.view({-1, run}), matrix(run, workspace.device())).view_as(all));
    return;
  }
  constexpr std::int64_t kRows = 16;
  ThreadPool::global().run((x.n + kRows - 1) / kRows, [&](std::int64_t i) noexcept {
    for (std::int64_t r = i * kRows; r < std::min(x.n, (i + 1) * kRows); ++r) rotate_row(x.row(r), x.width, dim);
  });
}

Rows rotated(Workspace& workspace, const Rows& x, std::int64_t offset, std::int64_t n_heads, std::int64_t dim) {
  const Rows result = scratch_rows(workspace, x.n, n_heads * dim);
  if (workspace.device().is_cpu()) {
    for (std::int64_t r = 0; r < x.n; ++r) std::copy_n(x.row(r) + offset, result.width, result.row(r));
  } else {
    as_tensor(workspace, result).copy_(as_tensor(workspace, x).narrow(1, offset, result.width));
  }
  rotate_heads(workspace, result, n_heads, dim);
  return result;
}

at::Tensor rotated(const at::Tensor& x) {
  if (!x.device().is_cpu()) {
    const std::int64_t run = run_of(x.size(-1));
    return at::matmul(x.to(at::kFloat).view({-1, run}), matrix(run, x.device())).view_as(x).to(x.scalar_type());
  }
  at::Tensor result = x.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
  rotate_row(result.mutable_data_ptr<float>(), result.numel(), x.size(-1));
  return result.to(x.scalar_type());
}

}  // namespace mneme::ops
