#pragma once

#include <ATen/ATen.h>

/// Weights of recurrent layers as ops take them, from the way checkpoints store them.
namespace mneme {

/// Taps [taps, channels] of a depthwise convolution that is stored as [channels, 1, taps].
inline at::Tensor taps_of(const at::Tensor& stored) { return stored.squeeze(1).t().contiguous(); }

/// A = -exp(A_log), with the exponential in double precision (Gu & Dao 2023, arXiv:2312.00752).
inline at::Tensor decay_of(const at::Tensor& a_log) { return -a_log.to(at::kDouble).exp().to(at::kFloat); }

}  // namespace mneme
