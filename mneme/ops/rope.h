#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// Rotary position embedding's frequencies: pair i of a head turns by position * frequency[i].
///
/// default   frequency[i] = theta^(-2i/D)                                 (Su et al. 2021, arXiv:2104.09864, eq. 15)
/// linear    the same divided by `factor`                                 (Chen et al. 2023, arXiv:2306.15595)
/// llama3    long waves divided by `factor`, short ones kept, a smooth ramp between (Llama 3.1 release)
/// yarn      the same idea with a ramp over pairs from beta_fast to beta_slow turns in the original length; cosines and
///           sines are scaled by the attention factor, 0.1 ln(factor) + 1    (Peng et al. 2023, arXiv:2309.00071)
/// longrope  each pair divided by its own factor, the long ones for sequences beyond the original length; scaled by
///           sqrt(1 + ln(factor) / ln(original length))                      (Ding et al. 2024, arXiv:2402.13753)
/// proportional  as linear, but only the first `part` of the pairs turn: a head's quarter, say  (Gemma 4)
/// dynamic   theta grows with the length of a sequence beyond max_position_embeddings  (Peng et al. 2023, section 3.3)
struct RopeOptions {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  ///< yarn: the ramp begins and ends at whole pairs
  /// yarn, longrope: instead of the paper's.
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
  std::vector<double> short_factor = {}, long_factor = {};  ///< longrope, dim / 2 numbers each
  std::int64_t original_max_position_embeddings = 0;        ///< llama3, yarn, longrope
  std::int64_t max_position_embeddings = 0;                 ///< dynamic
  double part = 1.0;                                        ///< proportional: of the pairs, above 0 and at most 1
};

/// Cosines and sines of positions. An entry depends on its position alone, never on how many are asked for; for
/// longrope and dynamic on the length of its sequence too.
class Rope {
 public:
  /// dim: how many leading elements of a head are rotated, even. Throws Error(kUnsupported) for an unknown type,
  /// Error(kInvalidArgument) for an odd dim or factors that cannot be.
  Rope(std::int64_t dim, const RopeOptions& options);

  std::int64_t dim() const noexcept { return dim_; }
  /// Those of a sequence of this many tokens.
  std::vector<float> frequencies(std::int64_t length = 0) const;
  /// Whether they depend on the length.
  bool by_length() const noexcept { return !long_frequencies_.empty() || options_.type == "dynamic"; }
  /// What cosines and sines are multiplied by.
  float attention_factor() const noexcept { return attention_factor_; }

  /// Angles of some tokens, computed once and used by every layer of a forward pass (arena memory).
  struct Table {
    Rows cosines, sines;  ///< [N, dim / 2]
  };
  /// lengths: tokens of the sequence of each position as far as they are known; empty: up to that position.
  Table table(Workspace& workspace, std::span<const std::int64_t> positions,
              std::span<const std::int64_t> lengths = {}) const;

  /// Rotates n_heads heads of every row in place: head h of row n is x[n][offset + h * head_dim ..].
  /// Half-split pairing (x[i], x[i + dim/2]), as in Llama.
  void apply(Workspace& workspace, const Table& table, const Rows& x, std::int64_t offset, std::int64_t n_heads,
             std::int64_t head_dim) const;

 private:
  const float* frequencies(std::int64_t length, std::vector<float>& computed) const;

  std::int64_t dim_;
  std::vector<float> frequencies_, long_frequencies_;  // the second for longrope
  float attention_factor_ = 1.0f;
  RopeOptions options_;
};

}  // namespace mneme::ops
