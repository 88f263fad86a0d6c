#pragma once

#include <cstdint>

namespace mneme::kernels {

/// y[c] = bias[c] + sum_k weight[k][c] taps[k][c]: one chain of fused multiply-adds from zero, the oldest tap first,
/// then one addition.
struct ConvArgs {
  const float* const* taps;  ///< [n_taps] rows of n channels, the oldest first
  std::int64_t n_taps;
  const float* weight;  ///< [n_taps][n]
  const float* bias;    ///< [n], or null
  std::int64_t n;
  float* y;  ///< [n]; not a tap
};

/// Some tokens of one sequence through sixteen channels of a selective scan, for each token and each channel
///
///   delta = softplus(time_step)
///   h[j]  = exp(delta a[j]) h[j] + (delta u) b[j]
///   y     = (sum_j h[j] c[j] + u d) silu(gate)
///
/// with the sum one chain of fused multiply-adds in the order of j, so that a token's result depends on its inputs and
/// on h alone. Rows of u, time_step, gate and y begin at the first of the sixteen channels.
struct ScanArgs {
  const float* before;  ///< [n_states][16] h before the first token
  float* after;         ///< [n_states][16] h after the last; may be `before`
  std::int64_t n_rows, n_states;
  int n_lanes;     ///< channels of the sixteen that there are
  const float* a;  ///< [n_states][16], zero in lanes that are no channel
  const float* d;  ///< [n_lanes]
  const float* u;
  std::int64_t u_stride;  ///< floats from row to row; so too below
  const float* time_step;
  std::int64_t time_step_stride;
  const float* b;  ///< [n_rows][n_states]
  const float* c;  ///< [n_rows][n_states]
  std::int64_t bc_stride;
  const float* gate;
  std::int64_t gate_stride;
  float* y;  ///< null: h alone is moved on, and c, d and gate are not read
  std::int64_t y_stride;
};

/// Some tokens of one sequence through sixteen value channels of one head whose state is a matrix, for each token
///
///   linear attention   h[j] = decay h[j] + k[j] (weight v)
///   delta rule         h[j] = decay h[j] + k[j] weight (v - decay sum_j h[j] k[j])
///   both               y    = sum_j h[j] q[j]
///
/// Sums over j are four chains of fused multiply-adds, of j = 0, 1, 2, 3 modulo 4, added in pairs: a token's result
/// depends on its inputs and on h alone. Sources: Dao & Gu 2024, arXiv:2405.21060; Yang et al. 2024, arXiv:2412.06464.
struct MatrixScanArgs {
  const float* before;  ///< [n_keys][16] h before the first token
  float* after;         ///< [n_keys][16] h after the last; may be `before`
  std::int64_t n_rows, n_keys;
  int n_lanes;                       ///< channels of the sixteen that there are
  const float* decay_weight;         ///< two numbers a token: decay, weight
  std::int64_t decay_weight_stride;  ///< floats from row to row; so too below
  const float* k;                    ///< [n_rows][n_keys]
  std::int64_t k_stride;
  const float* q;  ///< [n_rows][n_keys]
  std::int64_t q_stride;
  const float* v;  ///< [n_rows][n_lanes]
  std::int64_t v_stride;
  float* y;  ///< null: h alone is moved on, and q is not read
  std::int64_t y_stride;
};

}  // namespace mneme::kernels
