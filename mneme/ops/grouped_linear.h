#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/ops/linear.h"

namespace mneme::ops {

/// Several linear layers of one shape, of which each row of the input goes through one: the experts of a mixture. One
/// call computes them all, and only groups that have rows read their weights.
///
/// An output's bits are those of ops::Linear with its group's weights.
class GroupedLinear {
 public:
  GroupedLinear() = default;
  /// rows are those of the groups' matrices one after the other: row g * out_features + r is row r of group g. Kept as
  /// integers where all are in one coded format and the device is the CPU. bias [n_groups, out_features] float32 or an
  /// undefined tensor. Throws Error(kOutOfMemory).
  GroupedLinear(std::int64_t n_groups, const WeightRows& rows, DType dtype, at::Device device,
                const at::Tensor& bias = {});

  std::int64_t n_groups() const noexcept { return n_groups_; }
  std::int64_t in_features() const noexcept { return in_features_; }
  std::int64_t out_features() const noexcept { return out_features_; }
  std::int64_t n_bytes() const noexcept { return packed_.n_bytes(); }

  /// x [n, in_features], rows [group_starts[g], group_starts[g + 1]) for group g -> y [n, out_features].
  void forward(Workspace& workspace, const Rows& x, std::span<const std::int64_t> group_starts, const Rows& y) const;

 private:
  void forward_through_aten(const Workspace& workspace, const Rows& x, std::span<const std::int64_t> group_starts,
                            const Rows& y) const;

  std::int64_t n_groups_ = 0, out_features_ = 0, in_features_ = 0;
  PackedWeights packed_;
  at::Tensor bias_;  // float32 on the device, or undefined
};

}  // namespace mneme::ops
