#include "mneme/ops/grouped_linear.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/ops/packed_weights.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

constexpr std::int64_t kPanelsPerTask = 4;

/// Some rows of one group.
struct Piece {
  std::int64_t group, first_row, n_rows;
};

}  // namespace

GroupedLinear::GroupedLinear(std::int64_t n_groups, const WeightRows& rows, DType dtype, at::Device device,
                             const at::Tensor& bias)
    : n_groups_(n_groups), out_features_(rows.n / n_groups), in_features_(rows.columns) {
  if (bias.defined()) bias_ = bias.to(device, at::kFloat).contiguous();
  packed_ = device.is_cpu() && rows.coded.size() == 1
                ? PackedWeights(n_groups, in_features_, rows.coded.front())
                : PackedWeights(n_groups, out_features_, in_features_, dtype, device, rows.read);
}

void GroupedLinear::forward_through_aten(const Workspace& workspace, const Rows& x,
                                         std::span<const std::int64_t> group_starts, const Rows& y) const {
  for (std::int64_t g = 0; g < n_groups_; ++g) {
    const std::int64_t first = group_starts[static_cast<std::size_t>(g)];
    const std::int64_t n = group_starts[static_cast<std::size_t>(g) + 1] - first;
    if (n == 0) continue;
    const at::Tensor weights = packed_.tensor(g);
    const at::Tensor in = as_tensor(workspace, x).narrow(0, first, n).to(weights.scalar_type());
    const at::Tensor product = at::matmul(in, weights.t()).to(at::kFloat);
    as_tensor(workspace, y).narrow(0, first, n).copy_(bias_.defined() ? product + bias_[g] : product);
  }
}

void GroupedLinear::forward(Workspace& workspace, const Rows& x, std::span<const std::int64_t> group_starts,
                            const Rows& y) const {
  check(x.width == in_features_ && y.width == out_features_ && x.n == y.n &&
            std::ssize(group_starts) == n_groups_ + 1 && group_starts.back() == x.n,
        ErrorKind::kInvalidArgument,
        "grouped linear: x [{}, {}] and y [{}, {}] in {} groups do not fit {} groups of weights [{}, {}]", x.n, x.width,
        y.n, y.width, std::ssize(group_starts) - 1, n_groups_, out_features_, in_features_);
  if (!workspace.uses_kernels()) return forward_through_aten(workspace, x, group_starts, y);
  const Workspace::Scope scope(workspace);
  const kernels::ProductKernels& format = kernels::active().of(packed_.format());
  const PreparedRows rows = prepare_rows(workspace, packed_.format(), x);

  auto* pieces = reinterpret_cast<Piece*>(
      workspace.bytes((n_groups_ + x.n / kRowsPerTask) * static_cast<std::int64_t>(sizeof(Piece))));
  std::int64_t n_pieces = 0;
  for (std::int64_t g = 0; g < n_groups_; ++g) {
    const std::int64_t end = group_starts[static_cast<std::size_t>(g) + 1];
    for (std::int64_t row = group_starts[static_cast<std::size_t>(g)]; row < end; row += kRowsPerTask) {
      pieces[n_pieces++] = {g, row, std::min(kRowsPerTask, end - row)};
    }
  }
  const std::int64_t steps = (n_panels(out_features_) + kPanelsPerTask - 1) / kPanelsPerTask;
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  ThreadPool::global().run(n_pieces * steps, [&](std::int64_t i) noexcept {
    const Piece& piece = pieces[i / steps];
    const std::int64_t panel = i % steps * kPanelsPerTask, column = panel * kPanel;
    format.linear({.x = rows.data + piece.first_row * rows.stride,
                   .x_stride = rows.stride,
                   .panels = packed_.panel(piece.group, panel),
                   .bias = bias ? bias + piece.group * out_features_ + column : nullptr,
                   .y = y.row(piece.first_row) + column,
                   .y_stride = y.width,
                   .n_rows = piece.n_rows,
                   .inner = in_features_,
                   .n_columns = std::min(kPanelsPerTask * kPanel, out_features_ - column)});
  });
}

}  // namespace mneme::ops
