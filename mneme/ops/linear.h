#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>

#include "mneme/base/dtype.h"
#include "mneme/ops/weight_memory.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// y = x W^T + b. Weights are kept in one dtype, packed for this machine's kernels on the CPU; sums are float32.
///
/// On the CPU every output element is one fixed sequence of roundings, whatever the rows beside it and the number of
/// threads (kernels.h says which). bfloat16 weights round x to bfloat16 first; float16 and float32 weights do not.
class Linear {
 public:
  /// Reads rows [first, first + n) of W as float32 [n, in_features]; called from several threads at once.
  using ReadRows = std::function<void(std::int64_t first, std::int64_t n, float* out)>;

  Linear() = default;
  /// bias [out_features] float32 or an undefined tensor. Throws Error(kOutOfMemory).
  Linear(std::int64_t out_features, std::int64_t in_features, DType dtype, at::Device device, const ReadRows& read_rows,
         const at::Tensor& bias = {});

  std::int64_t in_features() const noexcept { return in_features_; }
  std::int64_t out_features() const noexcept { return out_features_; }
  at::Device device() const noexcept { return device_; }
  std::int64_t n_bytes() const noexcept { return packed_.n_bytes(); }

  /// x [n, in_features] -> y [n, out_features]; x and y must not overlap.
  void forward(Workspace& workspace, const Rows& x, const Rows& y) const;

 private:
  void forward_through_aten(const Workspace& workspace, const Rows& x, const Rows& y) const;
  at::Tensor weight_tensor() const;  // [out, in]

  std::int64_t out_features_ = 0, in_features_ = 0;
  DType dtype_ = DType::kFloat32;
  at::Device device_ = at::kCPU;
  WeightMemory packed_;  // CPU: panels; other devices: [out, in] row-major
  at::Tensor bias_;      // float32 on the device, or undefined
};

at::ScalarType scalar_type(DType dtype);

/// The inverse; throws Error(kUnsupported) for any other type.
DType dtype_of(at::ScalarType type);

}  // namespace mneme::ops
