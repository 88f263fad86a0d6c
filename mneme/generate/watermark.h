#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "mneme/generate/options.h"

namespace mneme {

/// Marks sampled text, bit for bit as transformers does with PyTorch's generator, so that its detector finds the mark.
class Watermark {
 public:
  Watermark(WatermarkingConfig config, std::int64_t vocab_size);

  /// Adds the bias to the ids of the list that the last tokens decide about. Nothing happens for texts shorter than
  /// context_width. O(V), with "selfhash" 40 times that.
  void apply(std::span<float> scores, std::span<const std::int64_t> tokens) const;

 private:
  std::vector<std::int64_t> green_ids(std::span<const std::int64_t> tokens) const;
  std::vector<std::int64_t> own_green_ids(std::span<const float> scores, std::span<const std::int64_t> tokens) const;
  std::uint64_t seed_of(std::span<const std::int64_t> tokens) const;

  WatermarkingConfig config_;
  std::int64_t vocab_size_;
  at::Tensor table_;  // "selfhash": a permutation of 1,000,003 numbers
};

}  // namespace mneme
