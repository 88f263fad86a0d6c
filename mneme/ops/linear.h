#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/ops/packed_weights.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// y = x W^T + b. Weights are kept in one dtype, or on the CPU as integers, packed for this machine's kernels there;
/// sums are float32.
///
/// On the CPU every output element is one fixed sequence of roundings, whatever the rows beside it and the number of
/// threads (kernels.h says which). bfloat16 weights round x to bfloat16 first, integers to int8 in runs of 64;
/// float16 and float32 weights take it as it is.
class Linear {
 public:
  Linear() = default;
  /// Integers where rows has them and the device is the CPU, else numbers in this dtype. bias [n] float32 or an
  /// undefined tensor. Throws Error(kOutOfMemory).
  Linear(const WeightRows& rows, DType dtype, at::Device device, const at::Tensor& bias = {});
  /// Numbers.
  Linear(std::int64_t out_features, std::int64_t in_features, DType dtype, at::Device device, const ReadRows& read_rows,
         const at::Tensor& bias = {})
      : Linear({out_features, in_features, read_rows}, dtype, device, bias) {}

  std::int64_t in_features() const noexcept { return in_features_; }
  std::int64_t out_features() const noexcept { return out_features_; }
  at::Device device() const noexcept { return device_; }
  std::int64_t n_bytes() const noexcept;

  /// x [n, in_features] -> y [n, out_features]; x and y must not overlap.
  void forward(Workspace& workspace, const Rows& x, const Rows& y) const;

 private:
  void forward_through_aten(const Workspace& workspace, const Rows& x, const Rows& y) const;

  std::int64_t out_features_ = 0, in_features_ = 0;
  at::Device device_ = at::kCPU;
  std::vector<PackedWeights> parts_;  // outputs one after the other; more than one where their formats differ
  at::Tensor bias_;                   // float32 on the device, or undefined
};

at::ScalarType scalar_type(DType dtype);

/// The inverse; throws Error(kUnsupported) for any other type.
DType dtype_of(at::ScalarType type);

}  // namespace mneme::ops
