#include "mneme/ops/linear.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/ops/packed_weights.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

// Panels that one task takes: about four tasks for each thread, so that uneven threads balance, and at most 8 panels.
// Fewer would wait for memory more often than for its lines.
std::int64_t panels_per_task(std::int64_t panels) {
  const std::int64_t threads = ThreadPool::global().size();
  return std::clamp<std::int64_t>(panels / (4 * threads), 1, 8);
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return at::kFloat;
    case DType::kBFloat16: return at::kBFloat16;
    case DType::kFloat16: return at::kHalf;
  }
  throw Error(ErrorKind::kUnsupported, "unknown dtype");
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::kFloat32;
    case at::kBFloat16: return DType::kBFloat16;
    case at::kHalf: return DType::kFloat16;
    default:
      throw Error(ErrorKind::kUnsupported, "dtype {} is not supported; use float32, bfloat16 or float16",
                  at::toString(type));
  }
}

Linear::Linear(const WeightRows& rows, DType dtype, at::Device device, const at::Tensor& bias)
    : out_features_(rows.n), in_features_(rows.columns), device_(device) {
  if (bias.defined()) bias_ = bias.to(device, at::kFloat).contiguous();
  if (device.is_cpu()) {
    for (const CodedRows& coded : rows.coded) parts_.emplace_back(1, in_features_, coded);
  }
  if (parts_.empty()) parts_.emplace_back(1, out_features_, in_features_, dtype, device, rows.read);
}

std::int64_t Linear::n_bytes() const noexcept {
  std::int64_t total = 0;
  for (const PackedWeights& part : parts_) total += part.n_bytes();
  return total;
}

void Linear::forward_through_aten(const Workspace& workspace, const Rows& x, const Rows& y) const {
  const at::Tensor in = as_tensor(workspace, x), out = as_tensor(workspace, y);
  std::int64_t column = 0;
  for (const PackedWeights& part : parts_) {
    const at::Tensor weights = part.tensor(0);
    out.narrow(1, column, part.out_features()).copy_(at::matmul(in.to(weights.scalar_type()), weights.t()));
    column += part.out_features();
  }
  if (bias_.defined()) out.add_(bias_);
}

void Linear::forward(Workspace& workspace, const Rows& x, const Rows& y) const {
  check(x.width == in_features_ && y.width == out_features_ && x.n == y.n, ErrorKind::kInvalidArgument,
        "linear: x [{}, {}] and y [{}, {}] do not fit weights [{}, {}]", x.n, x.width, y.n, y.width, out_features_,
        in_features_);
  if (!workspace.uses_kernels()) return forward_through_aten(workspace, x, y);
  const Workspace::Scope scope(workspace);
  const PreparedRows rows = prepare_rows(workspace, parts_.front().format(), x);
  const std::int64_t step = panels_per_task(n_panels(out_features_));
  const auto tasks_of = [step](const PackedWeights& part) { return (n_panels(part.out_features()) + step - 1) / step; };
  std::int64_t tasks = 0;
  for (const PackedWeights& part : parts_) tasks += tasks_of(part);
  const std::int64_t row_tasks = (x.n + kRowsPerTask - 1) / kRowsPerTask;
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  ThreadPool::global().run(tasks * row_tasks, [&](std::int64_t i) noexcept {
    const std::int64_t first_row = i / tasks * kRowsPerTask;
    std::int64_t task = i % tasks, first_column = 0;
    const PackedWeights* part = parts_.data();
    for (; task >= tasks_of(*part); ++part) {
      task -= tasks_of(*part);
      first_column += part->out_features();
    }
    const std::int64_t panel = task * step, column = first_column + panel * kPanel;
    kernels::active()
        .of(part->format())
        .linear({.x = rows.data + first_row * rows.stride,
                 .x_stride = rows.stride,
                 .panels = part->panel(0, panel),
                 .bias = bias ? bias + column : nullptr,
                 .y = y.row(first_row) + column,
                 .y_stride = y.width,
                 .n_rows = std::min(kRowsPerTask, x.n - first_row),
                 .inner = in_features_,
                 .n_columns = std::min(step * kPanel, part->out_features() - panel * kPanel)});
  });
}

}  // namespace mneme::ops
