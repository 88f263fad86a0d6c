#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// Rotary position embedding's frequencies: pair i of a head turns by position * frequency[i].
///
/// default  frequency[i] = theta^(-2i/D)                                  (Su et al. 2021, arXiv:2104.09864, eq. 15)
/// linear   the same divided by `factor`                                  (Chen et al. 2023, arXiv:2306.15595)
/// llama3   long waves divided by `factor`, short ones kept, a smooth ramp between (Llama 3.1 release)
struct RopeOptions {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 0;  ///< llama3 only
};

/// Cosines and sines of positions. An entry depends on its position alone, never on how many are asked for.
class Rope {
 public:
  /// dim: how many leading elements of a head are rotated, even. Throws Error(kUnsupported) for an unknown type,
  /// Error(kInvalidArgument) for an odd dim or factors that cannot be.
  Rope(std::int64_t dim, const RopeOptions& options);

  std::int64_t dim() const noexcept { return dim_; }
  const std::vector<float>& frequencies() const noexcept { return frequencies_; }

  /// Angles of some tokens, computed once and used by every layer of a forward pass (arena memory).
  struct Table {
    Rows cosines, sines;  ///< [N, dim / 2]
  };
  Table table(Workspace& workspace, std::span<const std::int64_t> positions) const;

  /// Rotates n_heads heads of every row in place: head h of row n is x[n][offset + h * head_dim ..].
  /// Half-split pairing (x[i], x[i + dim/2]), as in Llama.
  void apply(Workspace& workspace, const Table& table, const Rows& x, std::int64_t offset, std::int64_t n_heads,
             std::int64_t head_dim) const;

 private:
  std::int64_t dim_;
  std::vector<float> frequencies_;
};

}  // namespace mneme::ops
