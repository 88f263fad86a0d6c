#include "mneme/ops/packed_weights.h"

#include <algorithm>
#include <vector>

#include "mneme/base/thread_pool.h"
#include "mneme/ops/block_tensor.h"

namespace mneme::ops {

using kernels::kPanel;

std::int64_t packed_bytes(std::int64_t out_features, std::int64_t in_features, DType dtype, at::Device device) {
  return device.is_cpu() ? n_panels(out_features) * kernels::panel_bytes(dtype, in_features)
                         : out_features * in_features * static_cast<std::int64_t>(size_of(dtype));
}

WeightMemory pack_weights(std::int64_t n, std::int64_t out_features, std::int64_t in_features, DType dtype,
                          at::Device device, const Linear::ReadRows& read_rows) {
  const std::int64_t matrix_bytes = packed_bytes(out_features, in_features, dtype, device);
  WeightMemory packed(n * matrix_bytes, device);
  if (!device.is_cpu()) {
    std::vector<float> rows(static_cast<std::size_t>(out_features * in_features));
    for (std::int64_t i = 0; i < n; ++i) {
      read_rows(i * out_features, out_features, rows.data());
      weight_tensor(packed.data() + i * matrix_bytes, out_features, in_features, dtype, device)
          .copy_(at::from_blob(rows.data(), {out_features, in_features}, at::kFloat));
    }
    return packed;
  }
  const std::int64_t panels = n_panels(out_features), bytes = kernels::panel_bytes(dtype, in_features);
  ThreadPool::global().run(n * panels, [&](std::int64_t i) noexcept {
    thread_local std::vector<float> rows;
    rows.resize(static_cast<std::size_t>(kPanel * in_features));
    const std::int64_t first = i % panels * kPanel, count = std::min(kPanel, out_features - first);
    read_rows(i / panels * out_features + first, count, rows.data());
    kernels::pack_panel(dtype, rows.data(), count, in_features, packed.data() + i * bytes);
  });
  return packed;
}

at::Tensor weight_tensor(std::byte* packed, std::int64_t out_features, std::int64_t in_features, DType dtype,
                         at::Device device) {
  if (device.is_cpu()) {
    const at::Tensor panels = panel_view(dtype, packed, 1, 0, n_panels(out_features), in_features, device);
    return unpacked(panels)[0].narrow(0, 0, out_features).narrow(1, 0, in_features);
  }
  return at::from_blob(packed, {out_features, in_features},
                       at::TensorOptions().dtype(scalar_type(dtype)).device(device));
}

PreparedRows prepare_rows(Workspace& workspace, DType dtype, const Rows& x) {
  const kernels::FormatKernels& format = kernels::active().of(dtype);
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
