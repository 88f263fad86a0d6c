#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace mneme {

/// T5's relative attention bias as the table that attention reads (ops::AttendOptions::relative_bias): distances fall
/// into buckets, one for each distance while it is small, wider and wider ones up to max_distance, and all beyond share
/// the last. Seen from both sides, keys before and after the query have half of the buckets each.
struct RelativeBiasOptions {
  std::int64_t max_distance = 128;
  bool bidirectional = true;  ///< an encoder's; a decoder's keys are never later than the query
};

/// values [buckets, n_heads] float32 -> [n_heads, 2 (max_distance + 64) - 1] float32 on the same device.
/// Throws Error(kCorruptData) with both numbers for too few buckets, or a max_distance that these do not reach or above
/// 65,536. Source: Raffel et al. 2019, arXiv:1910.10683, section 2.1.
at::Tensor relative_bias_table(const at::Tensor& values, const RelativeBiasOptions& options);

}  // namespace mneme
