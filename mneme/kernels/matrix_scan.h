#pragma once

#include "mneme/kernels/state_args.h"

namespace mneme::kernels {

/// sum_j h[j] x[j] in the order of MatrixScanArgs, where h(j) may do more than load.
template <class L, class State>
[[gnu::always_inline]] inline L sum_of_states(std::int64_t n, const float* x, State&& h) {
  L sums[4] = {L::zero(), L::zero(), L::zero(), L::zero()};
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    for (int i = 0; i < 4; ++i) sums[i] = L::fma(h(j + i), L::set1(x[j + i]), sums[i]);
  }
  for (int i = 0; j < n; ++i, ++j) sums[i] = L::fma(h(j), L::set1(x[j]), sums[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Channels are lanes; h lies in `after`, which a call keeps in L1.
template <class L, bool delta>
void matrix_scan(const MatrixScanArgs& args) noexcept {
  float* h = args.after;
  if (h != args.before) {
    for (std::int64_t j = 0; j < args.n_keys; ++j) L::load(args.before + j * 16).store(h + j * 16);
  }
  for (std::int64_t t = 0; t < args.n_rows; ++t) {
    const float* gates = args.decay_weight + t * args.decay_weight_stride;
    const L decay = L::set1(gates[0]), weight = L::set1(gates[1]);
    const float* k = args.k + t * args.k_stride;
    L v = L::load_first(args.v + t * args.v_stride, args.n_lanes);
    if constexpr (delta) {
      v = v - decay * sum_of_states<L>(args.n_keys, k, [&](std::int64_t j) { return L::load(h + j * 16); });
    }
    v = v * weight;
    const auto move = [&](std::int64_t j) {
      const L moved = L::fma(L::set1(k[j]), v, decay * L::load(h + j * 16));
      moved.store(h + j * 16);
      return moved;
    };
    if (args.y) {
      sum_of_states<L>(args.n_keys, args.q + t * args.q_stride, move)
          .store_first(args.y + t * args.y_stride, args.n_lanes);
    } else {
      for (std::int64_t j = 0; j < args.n_keys; ++j) move(j);
    }
  }
}

}  // namespace mneme::kernels
