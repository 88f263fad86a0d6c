#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mneme {

/// Rotary position embedding, from `rope_parameters` (or the older `rope_theta` + `rope_scaling`). What the numbers of
/// each type mean: ops/rope.h.
struct RopeConfig {
  std::string rope_type = "default";  ///< default | linear | llama3 | yarn | longrope | dynamic | proportional
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;  ///< part of a head that is rotated
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  std::optional<double> attention_factor, mscale, mscale_all_dim;
  std::vector<double> short_factor, long_factor;
  std::int64_t original_max_position_embeddings = 0;  ///< max_position_embeddings if the file does not say

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

}  // namespace mneme
