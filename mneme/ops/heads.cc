#include "mneme/ops/heads.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

void check_heads(const Rows& rows, std::int64_t offset, std::int64_t stride, std::int64_t n_heads, const Rows& heads) {
  check(heads.n == n_heads * rows.n && offset >= 0 && stride >= heads.width &&
            offset + (n_heads - 1) * stride + heads.width <= rows.width,
        ErrorKind::kInvalidArgument, "{} heads of {} at {}, {} apart, do not fit rows [{}, {}] and [{}, {}]", n_heads,
        heads.width, offset, stride, rows.n, rows.width, heads.n, heads.width);
}

/// Those numbers of the rows, as [n_heads, N, width].
at::Tensor view(const Workspace& workspace, const Rows& rows, std::int64_t offset, std::int64_t stride,
                std::int64_t n_heads, std::int64_t width) {
  return as_tensor(workspace, rows).as_strided({n_heads, rows.n, width}, {stride, rows.width, 1}, offset);
}

}  // namespace

void split_heads(Workspace& workspace, const Rows& from, std::int64_t offset, std::int64_t stride, std::int64_t n_heads,
                 const Rows& to) {
  check_heads(from, offset, stride, n_heads, to);
  if (!workspace.uses_kernels()) {
    as_tensor(workspace, to)
        .view({n_heads, from.n, to.width})
        .copy_(view(workspace, from, offset, stride, n_heads, to.width));
    return;
  }
  parallel_rows(to.n, to.width, [&](std::int64_t i) noexcept {
    std::copy_n(from.row(i % from.n) + offset + i / from.n * stride, to.width, to.row(i));
  });
}

void join_heads(Workspace& workspace, const Rows& from, std::int64_t n_heads, const Rows& to, std::int64_t offset,
                std::int64_t stride) {
  check_heads(to, offset, stride, n_heads, from);
  if (!workspace.uses_kernels()) {
    view(workspace, to, offset, stride, n_heads, from.width)
        .copy_(as_tensor(workspace, from).view({n_heads, to.n, from.width}));
    return;
  }
  parallel_rows(from.n, from.width, [&](std::int64_t i) noexcept {
    std::copy_n(from.row(i), from.width, to.row(i % to.n) + offset + i / to.n * stride);
  });
}

}  // namespace mneme::ops
