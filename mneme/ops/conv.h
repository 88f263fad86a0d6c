#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/ops/state_run.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// A causal convolution of each channel for itself (depthwise) over the last K tokens.
struct ConvWeights {
  at::Tensor taps;    ///< [K, C] float32 on the device, the oldest tap first; K at most kMaxTaps
  at::Tensor bias;    ///< [C] float32, or undefined
  bool silu = false;  ///< the result goes through SiLU
};
inline constexpr std::int64_t kMaxTaps = 32;

/// y[t][c] = bias[c] + sum_k taps[k][c] x[t - K + 1 + k][c], then SiLU if asked for.
///
/// x      rows [N, >= C]: the first C columns are the channels
/// y      rows [N, C]; not x
/// runs   each with a window in its states, at `offset` floats: the last K - 1 tokens [K - 1, C], zeros before the
/// first
///
/// A row's bits depend on its tap rows alone. Throws Error(kInvalidArgument) for shapes that do not fit.
void causal_conv(Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset, const Rows& x,
                 const ConvWeights& weights, const Rows& y);

}  // namespace mneme::ops
