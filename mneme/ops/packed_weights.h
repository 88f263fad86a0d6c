#pragma once

#include "mneme/kernels/kernels.h"
#include "mneme/ops/linear.h"

/// What Linear and GroupedLinear have in common: matrices in the layout of this machine's kernels, and rows as they
/// take them.
namespace mneme::ops {

/// Rows that one task of a product takes: enough to use weights many times while they are in cache, few enough that
/// inputs stay there.
inline constexpr std::int64_t kRowsPerTask = 512;

inline std::int64_t n_panels(std::int64_t out_features) {
  return kernels::round_up(out_features, kernels::kPanel) / kernels::kPanel;
}

/// n matrices [out, in] in memory of a device: panels of each on the CPU, [n, out, in] row-major elsewhere. read_rows
/// reads them one after the other: row i * out + r is row r of matrix i.
WeightMemory pack_weights(std::int64_t n, std::int64_t out_features, std::int64_t in_features, DType dtype,
                          at::Device device, const Linear::ReadRows& read_rows);

/// Bytes of one of them.
std::int64_t packed_bytes(std::int64_t out_features, std::int64_t in_features, DType dtype, at::Device device);

/// One of them as a tensor [out, in]: a view, or on the CPU a copy, for the tests of the ATen path alone.
at::Tensor weight_tensor(std::byte* packed, std::int64_t out_features, std::int64_t in_features, DType dtype,
                         at::Device device);

/// Rows of float32, or what a kernel makes of them before it reads them many times: `stride` bytes each.
struct PreparedRows {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
};

/// x as the product in this dtype takes it, in memory of the workspace's scope.
PreparedRows prepare_rows(Workspace& workspace, DType dtype, const Rows& x);

}  // namespace mneme::ops
