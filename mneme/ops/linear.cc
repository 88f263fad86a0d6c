#include "mneme/ops/linear.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/ops/packed_weights.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

// Panels that one task takes: about eight tasks for each thread, so that uneven threads balance, at most 8 panels.
std::int64_t panels_per_task(std::int64_t panels) {
  const std::int64_t threads = ThreadPool::global().size();
  return std::clamp<std::int64_t>(panels / (8 * threads), 1, 8);
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

Linear::Linear(std::int64_t out_features, std::int64_t in_features, DType dtype, at::Device device,
               const ReadRows& read_rows, const at::Tensor& bias)
    : out_features_(out_features), in_features_(in_features), dtype_(dtype), device_(device) {
  if (bias.defined()) bias_ = bias.to(device, at::kFloat).contiguous();
  packed_ = pack_weights(1, out_features, in_features, dtype, device, read_rows);
}

at::Tensor Linear::weight_tensor() const {
  return ops::weight_tensor(packed_.data(), out_features_, in_features_, dtype_, device_);
}

void Linear::forward_through_aten(const Workspace& workspace, const Rows& x, const Rows& y) const {
  const at::Tensor product =
      at::matmul(as_tensor(workspace, x).to(scalar_type(dtype_)), weight_tensor().t()).to(at::kFloat);
  as_tensor(workspace, y).copy_(bias_.defined() ? product + bias_ : product);
}

void Linear::forward(Workspace& workspace, const Rows& x, const Rows& y) const {
  check(x.width == in_features_ && y.width == out_features_ && x.n == y.n, ErrorKind::kInvalidArgument,
        "linear: x [{}, {}] and y [{}, {}] do not fit weights [{}, {}]", x.n, x.width, y.n, y.width, out_features_,
        in_features_);
  if (!workspace.uses_kernels()) return forward_through_aten(workspace, x, y);
  const Workspace::Scope scope(workspace);
  const kernels::FormatKernels& format = kernels::active().of(dtype_);
  const PreparedRows rows = prepare_rows(workspace, dtype_, x);
  const std::int64_t panels = n_panels(out_features_), bytes = kernels::panel_bytes(dtype_, in_features_);
  const std::int64_t step = panels_per_task(panels), tasks = (panels + step - 1) / step;
  const std::int64_t row_tasks = (x.n + kRowsPerTask - 1) / kRowsPerTask;
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  ThreadPool::global().run(tasks * row_tasks, [&](std::int64_t i) noexcept {
    const std::int64_t first_row = i / tasks * kRowsPerTask, panel = i % tasks * step, column = panel * kPanel;
    format.linear({.x = rows.data + first_row * rows.stride,
                   .x_stride = rows.stride,
                   .panels = packed_.data() + panel * bytes,
                   .bias = bias ? bias + column : nullptr,
                   .y = y.row(first_row) + column,
                   .y_stride = y.width,
                   .n_rows = std::min(kRowsPerTask, x.n - first_row),
                   .inner = in_features_,
                   .n_columns = std::min(step * kPanel, out_features_ - column)});
  });
}

}  // namespace mneme::ops
