#include "mneme/ops/grouped_linear.h"

#include <algorithm>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/block_tensor.h"

namespace mneme::ops {
namespace {

using kernels::kPanel;

constexpr std::int64_t kRowsPerTask = 512;  // as in Linear
constexpr std::int64_t kPanelsPerTask = 4;

/// Some rows of one group.
struct Piece {
  std::int64_t group, first_row, n_rows;
};

std::int64_t n_panels(std::int64_t out_features) { return kernels::round_up(out_features, kPanel) / kPanel; }

}  // namespace

GroupedLinear::GroupedLinear(std::int64_t n_groups, std::int64_t out_features, std::int64_t in_features, DType dtype,
                             at::Device device, const Linear::ReadRows& read_rows, const at::Tensor& bias)
    : n_groups_(n_groups), out_features_(out_features), in_features_(in_features), dtype_(dtype), device_(device) {
  if (bias.defined()) bias_ = bias.to(device, at::kFloat).contiguous();
  if (!device.is_cpu()) {
    const std::int64_t size = out_features * in_features;
    packed_ = WeightMemory(n_groups * size * static_cast<std::int64_t>(size_of(dtype)), device);
    std::vector<float> rows(static_cast<std::size_t>(size));
    for (std::int64_t g = 0; g < n_groups; ++g) {
      read_rows(g * out_features, out_features, rows.data());
      weight_tensor(g).copy_(at::from_blob(rows.data(), {out_features, in_features}, at::kFloat));
    }
    return;
  }
  const std::int64_t panels = n_panels(out_features), bytes = kernels::panel_bytes(dtype, in_features);
  packed_ = WeightMemory(n_groups * panels * bytes, device);
  ThreadPool::global().run(n_groups * panels, [&](std::int64_t i) noexcept {
    thread_local std::vector<float> rows;
    rows.resize(static_cast<std::size_t>(kPanel * in_features));
    const std::int64_t first = i % panels * kPanel, n = std::min(kPanel, out_features - first);
    read_rows(i / panels * out_features + first, n, rows.data());
    kernels::pack_panel(dtype, rows.data(), n, in_features, packed_.data() + i * bytes);
  });
}

std::int64_t GroupedLinear::group_bytes() const {
  return device_.is_cpu() ? n_panels(out_features_) * kernels::panel_bytes(dtype_, in_features_)
                          : out_features_ * in_features_ * static_cast<std::int64_t>(size_of(dtype_));
}

at::Tensor GroupedLinear::weight_tensor(std::int64_t group) const {
  std::byte* begin = packed_.data() + group * group_bytes();
  if (device_.is_cpu()) {  // for the tests of the ATen path alone
    const at::Tensor panels = panel_view(dtype_, begin, 1, 0, n_panels(out_features_), in_features_, device_);
    return unpacked(panels)[0].narrow(0, 0, out_features_).narrow(1, 0, in_features_);
  }
  return at::from_blob(begin, {out_features_, in_features_},
                       at::TensorOptions().dtype(scalar_type(dtype_)).device(device_));
}

void GroupedLinear::forward_through_aten(const Workspace& workspace, const Rows& x,
                                         std::span<const std::int64_t> group_starts, const Rows& y) const {
  for (std::int64_t g = 0; g < n_groups_; ++g) {
    const std::int64_t first = group_starts[static_cast<std::size_t>(g)];
    const std::int64_t n = group_starts[static_cast<std::size_t>(g) + 1] - first;
    if (n == 0) continue;
    const at::Tensor in = as_tensor(workspace, x).narrow(0, first, n).to(scalar_type(dtype_));
    const at::Tensor product = at::matmul(in, weight_tensor(g).t()).to(at::kFloat);
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

  auto* pieces = reinterpret_cast<Piece*>(
      workspace.bytes((n_groups_ + x.n / kRowsPerTask) * static_cast<std::int64_t>(sizeof(Piece))));
  std::int64_t n_pieces = 0;
  for (std::int64_t g = 0; g < n_groups_; ++g) {
    const std::int64_t end = group_starts[static_cast<std::size_t>(g) + 1];
    for (std::int64_t row = group_starts[static_cast<std::size_t>(g)]; row < end; row += kRowsPerTask) {
      pieces[n_pieces++] = {g, row, std::min(kRowsPerTask, end - row)};
    }
  }
  const std::int64_t bytes = kernels::panel_bytes(dtype_, in_features_);
  const std::int64_t steps = (n_panels(out_features_) + kPanelsPerTask - 1) / kPanelsPerTask;
  const float* bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  pool.run(n_pieces * steps, [&](std::int64_t i) noexcept {
    const Piece& piece = pieces[i / steps];
    const std::int64_t panel = i % steps * kPanelsPerTask, column = panel * kPanel;
    format.linear({.x = static_cast<const std::byte*>(rows) + piece.first_row * stride,
                   .x_stride = stride,
                   .panels = packed_.data() + piece.group * group_bytes() + panel * bytes,
                   .bias = bias ? bias + piece.group * out_features_ + column : nullptr,
                   .y = y.row(piece.first_row) + column,
                   .y_stride = y.width,
                   .n_rows = piece.n_rows,
                   .inner = in_features_,
                   .n_columns = std::min(kPanelsPerTask * kPanel, out_features_ - column)});
  });
}

}  // namespace mneme::ops
