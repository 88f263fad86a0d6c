#include "mneme/ops/linear.h"

#include <algorithm>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/block_tensor.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

// Rows that one task takes: enough to use weights many times while they are in cache, few enough that inputs stay
// there.
constexpr std::int64_t kRowsPerTask = 512;

std::int64_t n_panels(std::int64_t out_features) { return kernels::round_up(out_features, kPanel) / kPanel; }

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
  if (!device.is_cpu()) {
    packed_ = WeightMemory(out_features * in_features * static_cast<std::int64_t>(size_of(dtype)), device);
    std::vector<float> rows(static_cast<std::size_t>(out_features * in_features));
    read_rows(0, out_features, rows.data());
    weight_tensor().copy_(at::from_blob(rows.data(), {out_features, in_features}, at::kFloat));
    return;
  }
  const std::int64_t panels = n_panels(out_features), bytes = kernels::panel_bytes(dtype, in_features);
  packed_ = WeightMemory(panels * bytes, device);
  ThreadPool::global().run(panels, [&](std::int64_t p) noexcept {
    thread_local std::vector<float> rows;
    rows.resize(static_cast<std::size_t>(kPanel * in_features));
    const std::int64_t first = p * kPanel, n = std::min(kPanel, out_features - first);
    read_rows(first, n, rows.data());
    kernels::pack_panel(dtype, rows.data(), n, in_features, packed_.data() + p * bytes);
  });
}

at::Tensor Linear::weight_tensor() const {
  if (device_.is_cpu()) {  // for the tests of the ATen path alone
    const at::Tensor panels = panel_view(dtype_, packed_.data(), 1, 0, n_panels(out_features_), in_features_, device_);
    return unpacked(panels)[0].narrow(0, 0, out_features_).narrow(1, 0, in_features_);
  }
  return at::from_blob(packed_.data(), {out_features_, in_features_},
                       at::TensorOptions().dtype(scalar_type(dtype_)).device(device_));
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
  ThreadPool& pool = ThreadPool::global();
  const kernels::FormatKernels& format = kernels::active().of(dtype_);
  const void* rows = x.data;
  std::int64_t stride = format.prepared_bytes(in_features_);
  if (stride) {
    std::byte* prepared = workspace.bytes(x.n * stride);
    constexpr std::int64_t kChunk = 32;
    pool.run((x.n + kChunk - 1) / kChunk, [&](std::int64_t i) noexcept {
      const std::int64_t first = i * kChunk, n = std::min(kChunk, x.n - first);
      format.prepare(x.row(first), x.width, n, in_features_, prepared + first * stride);
    });
    rows = prepared;
  } else {
    stride = x.width * static_cast<std::int64_t>(sizeof(float));
  }
  const std::int64_t panels = n_panels(out_features_), bytes = kernels::panel_bytes(dtype_, in_features_);
  const std::int64_t step = panels_per_task(panels), tasks = (panels + step - 1) / step;
  const std::int64_t row_tasks = (x.n + kRowsPerTask - 1) / kRowsPerTask;
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  pool.run(tasks * row_tasks, [&](std::int64_t i) noexcept {
    const std::int64_t first_row = i / tasks * kRowsPerTask, panel = i % tasks * step, column = panel * kPanel;
    format.linear({.x = static_cast<const std::byte*>(rows) + first_row * stride,
                   .x_stride = stride,
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
