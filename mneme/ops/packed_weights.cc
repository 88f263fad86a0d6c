#include "mneme/ops/packed_weights.h"

#include <algorithm>

#include "mneme/base/thread_pool.h"
#include "mneme/kernels/coded_panel.h"
#include "mneme/ops/block_tensor.h"
#include "mneme/ops/linear.h"

namespace mneme::ops {

using kernels::kPanel;

PackedWeights::PackedWeights(std::int64_t n_groups, std::int64_t out_features, std::int64_t in_features, DType dtype,
                             at::Device device, const ReadRows& read)
    : out_features_(out_features), in_features_(in_features), format_(weight_format(dtype)), device_(device) {
  const std::int64_t panels = n_panels(out_features);
  panel_bytes_ = kernels::panel_bytes(dtype, in_features);
  group_bytes_ =
      device.is_cpu() ? panels * panel_bytes_ : out_features * in_features * static_cast<std::int64_t>(size_of(dtype));
  memory_ = WeightMemory(n_groups * group_bytes_, device);
  if (!device.is_cpu()) {
    std::vector<float> rows(static_cast<std::size_t>(out_features * in_features));
    for (std::int64_t g = 0; g < n_groups; ++g) {
      read(g * out_features, out_features, rows.data());
      tensor(g).copy_(at::from_blob(rows.data(), {out_features, in_features}, at::kFloat));
    }
    return;
  }
  ThreadPool::global().run(n_groups * panels, [&](std::int64_t i) noexcept {
    thread_local std::vector<float> rows;
    rows.resize(static_cast<std::size_t>(kPanel * in_features));
    const std::int64_t first = i % panels * kPanel, count = std::min(kPanel, out_features - first);
    read(i / panels * out_features + first, count, rows.data());
    kernels::pack_panel(dtype, rows.data(), count, in_features, memory_.data() + i * panel_bytes_);
  });
}

PackedWeights::PackedWeights(std::int64_t n_groups, std::int64_t in_features, const CodedRows& coded)
    : out_features_(coded.n / n_groups), in_features_(in_features), format_(coded.format) {
  const CodedFormat layout = coded_format(format_);
  const std::int64_t panels = n_panels(out_features_);
  const std::int64_t row_bytes = layout.row_bytes(in_features);
  panel_bytes_ = kernels::panel_bytes(format_, in_features);
  group_bytes_ = panels * panel_bytes_;
  memory_ = WeightMemory(n_groups * group_bytes_, device_);
  ThreadPool::global().run(n_groups * panels, [&](std::int64_t i) noexcept {
    thread_local std::vector<std::byte> rows;
    rows.resize(static_cast<std::size_t>(kPanel * row_bytes));
    const std::int64_t first = i % panels * kPanel, count = std::min(kPanel, out_features_ - first);
    coded.read(i / panels * out_features_ + first, count, rows.data());
    kernels::pack_coded_panel(format_, rows.data(), row_bytes, count, in_features, memory_.data() + i * panel_bytes_);
  });
}

at::Tensor PackedWeights::tensor(std::int64_t group) const {
  std::byte* const data = memory_.data() + group * group_bytes_;
  if (is_coded(format_)) {
    at::Tensor rows = at::empty({out_features_, in_features_}, at::kFloat);
    kernels::decode_coded_panels(format_, data, out_features_, in_features_, rows.mutable_data_ptr<float>());
    return rows;
  }
  const auto dtype = static_cast<DType>(format_);
  if (device_.is_cpu()) {
    const at::Tensor panels = panel_view(dtype, data, 1, 0, n_panels(out_features_), in_features_, device_);
    return unpacked(panels)[0].narrow(0, 0, out_features_).narrow(1, 0, in_features_);
  }
  return at::from_blob(data, {out_features_, in_features_},
                       at::TensorOptions().dtype(scalar_type(dtype)).device(device_));
}

PreparedRows prepare_rows(Workspace& workspace, WeightFormat weights, const Rows& x) {
  const kernels::ProductKernels& format = kernels::active().of(weights);
  const std::int64_t stride = format.prepared_bytes(x.width);
  if (stride == 0)
    return {reinterpret_cast<const std::byte*>(x.data), x.width * static_cast<std::int64_t>(sizeof(float))};
  std::byte* const prepared = workspace.bytes(x.n * stride);
  constexpr std::int64_t kChunk = 32;
  ThreadPool::global().run((x.n + kChunk - 1) / kChunk, [&](std::int64_t i) noexcept {
    const std::int64_t first = i * kChunk, n = std::min(kChunk, x.n - first);
    format.prepare(x.row(first), x.width, n, x.width, prepared + first * stride);
  });
  return {prepared, stride};
}

}  // namespace mneme::ops
