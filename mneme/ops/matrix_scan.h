#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "mneme/ops/state_run.h"
#include "mneme/ops/workspace.h"

namespace mneme::ops {

/// A recurrence in which each head keeps a matrix [n_keys, head_dim]: Mamba-2's, or the delta rule.
struct MatrixScanOptions {
  std::int64_t n_heads = 0;      ///< value heads
  std::int64_t n_key_heads = 0;  ///< divides n_heads; neighbouring value heads share one
  std::int64_t n_keys = 0, head_dim = 0;
  bool delta = false;    ///< the delta rule
  at::Tensor skip = {};  ///< [n_heads] float32 on the device: y += skip v; or none
};

/// What comes with the tokens. Rows are [N, ..].
struct MatrixScanInputs {
  Rows x;  ///< keys, queries and values lie at these columns, head by head
  std::int64_t k_offset = 0, q_offset = 0, v_offset = 0;
  Rows gates;  ///< [N, 2 n_heads]: decay and weight of each head
};

/// Floats of the states of all heads: for each, and each sixteen of its channels, [n_keys, 16].
std::int64_t matrix_state_floats(const MatrixScanOptions& options);

/// For every token and head, h being its matrix:
///
///   linear attention   h = decay h + k (weight v)^T                       (Dao & Gu 2024, arXiv:2405.21060)
///   delta rule         h = decay h + k (weight (v - (decay h)^T k))^T     (Yang et al. 2024, arXiv:2412.06464)
///   both               y = h^T q
///
/// runs   each with the matrices in its states, at `offset` floats; zeros before the first token
/// y      rows [N, n_heads head_dim]; data null: the states alone are moved on
///
/// Tokens are taken one after the other in one order, so a token's bits depend on its sequence alone.
/// Throws Error(kInvalidArgument) for shapes that do not fit.
void matrix_scan(Workspace& workspace, std::span<const StateRun> runs, std::int64_t offset,
                 const MatrixScanInputs& inputs, const MatrixScanOptions& options, const Rows& y);

/// What the gates are made of, [n_heads] float32 on the device each: `a` is negative.
struct GateWeights {
  at::Tensor bias, a;
  float least = 0, most = 0;  ///< bounds of a time step
};

/// Mamba-2: dt = clamp(softplus(raw + bias)), decay = exp(dt a), weight = dt; raw are columns [offset, offset +
/// n_heads).
void time_step_gates(Workspace& workspace, const Rows& raw, std::int64_t offset, const GateWeights& weights,
                     const Rows& gates);

/// Gated delta rule: weight = sigmoid(b), decay = exp(softplus(raw + bias) a); columns [offset, offset + 2 n_heads) are
/// b and then raw.
void delta_gates(Workspace& workspace, const Rows& raw, std::int64_t offset, const GateWeights& weights,
                 const Rows& gates);

}  // namespace mneme::ops
