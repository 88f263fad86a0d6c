#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/ops/state_run.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// What a selective scan has of its own, for C channels of n states.
struct ScanWeights {
  at::Tensor a;  ///< panels of [C, n] (scan_panels), negative
  at::Tensor d;  ///< [C] float32 on the device
};

/// What comes with the tokens. Rows are [N, ..]; C and n as in the weights.
struct ScanInputs {
  Rows u;          ///< [N, C]
  Rows time_step;  ///< [N, C], before softplus
  Rows b_and_c;    ///< [N, 2 n]: b, then c
  Rows gate = {};  ///< [N, gate_offset + C ..]; not read where no output is asked for
  std::int64_t gate_offset = 0;
};

/// [C, n] as the scan keeps it: [ceil(C / 16), n, 16] contiguous, zero past the last channel.
at::Tensor scan_panels(const at::Tensor& matrix);

/// Floats of the state of C channels in that layout.
std::int64_t scan_state_floats(std::int64_t n_channels, std::int64_t n_states);

/// The recurrence of Mamba, for every token and channel, h being n numbers:
///
///   delta = softplus(time_step),  h = exp(delta a) h + delta b u,  y = (c h + d u) silu(gate)
///
/// runs   each with h in its states, at `offset` floats, in the layout of scan_panels; zeros before the first token
/// y      rows [N, C]; data null: the states alone are moved on
///
/// Tokens are taken one after the other in one order, so the bits of a token's row and of the states depend on its
/// sequence alone, whatever the piece that it comes in. Source: Gu & Dao 2023, arXiv:2312.00752, algorithm 2.
/// Throws Error(kInvalidArgument) for shapes that do not fit.
void selective_scan(Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset, const ScanInputs& inputs,
                    const ScanWeights& weights, const Rows& y);

}  // namespace mneme::ops
