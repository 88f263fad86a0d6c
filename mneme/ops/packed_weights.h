#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/kernels/kernels.h"
#include "mneme/ops/weight_memory.h"
#include "mneme/ops/weight_rows.h"
#include "mneme/ops/workspace.h"

/// What Linear and GroupedLinear have in common: matrices in the layout of this machine's kernels, and rows as they
/// take them.
namespace mneme::ops {

/// Rows that one task of a product takes: enough to use weights many times while they are in cache, few enough that
/// inputs stay there.
inline constexpr std::int64_t kRowsPerTask = 256;

inline std::int64_t n_panels(std::int64_t out_features) {
  return kernels::round_up(out_features, kernels::kPanel) / kernels::kPanel;
}

/// n_groups matrices [out_features, in_features] of one format: panels of each on the CPU, row-major elsewhere.
class PackedWeights {
 public:
  PackedWeights() = default;
  /// Numbers in a dtype; read reads the matrices one after the other: row i * out + r is row r of matrix i.
  PackedWeights(std::int64_t n_groups, std::int64_t out_features, std::int64_t in_features, DType dtype,
                at::Device device, const ReadRows& read);
  /// Integers, on the CPU; n_groups * out_features rows.
  PackedWeights(std::int64_t n_groups, std::int64_t in_features, const CodedRows& rows);

  std::int64_t out_features() const noexcept { return out_features_; }
  WeightFormat format() const noexcept { return format_; }
  std::int64_t n_bytes() const noexcept { return memory_.n_bytes(); }

  /// A panel of a group's matrix.
  const std::byte* panel(std::int64_t group, std::int64_t index) const noexcept {
    return memory_.data() + group * group_bytes_ + index * panel_bytes_;
  }
  /// One of them as a tensor [out, in]: a view, or on the CPU a copy, for the tests of the ATen path alone. Integers
  /// are decoded.
  at::Tensor tensor(std::int64_t group) const;

 private:
  std::int64_t out_features_ = 0, in_features_ = 0, group_bytes_ = 0, panel_bytes_ = 0;
  WeightFormat format_ = WeightFormat::kFloat32;
  at::Device device_ = at::kCPU;
  WeightMemory memory_;
};

/// Rows of float32, or what a kernel makes of them before it reads them many times: `stride` bytes each.
struct PreparedRows {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
};

/// x as the product with weights in this format takes it, in memory of the workspace's scope. Coded formats all take
/// the same.
PreparedRows prepare_rows(Workspace& workspace, WeightFormat format, const Rows& x);

}  // namespace mneme::ops
