#pragma once

#include "mneme/kernels/elementwise.h"
#include "mneme/kernels/state_args.h"

namespace mneme::kernels {

/// Channels are lanes, so no sum crosses lanes; h lies in `after`, which a call keeps in L1.
template <class L>
void selective_scan(const ScanArgs& args) noexcept {
  float* h = args.after;
  if (h != args.before) {
    for (std::int64_t j = 0; j < args.n_states; ++j) L::load(args.before + j * 16).store(h + j * 16);
  }
  for (std::int64_t t = 0; t < args.n_rows; ++t) {
    const L u = L::load_first(args.u + t * args.u_stride, args.n_lanes);
    const L delta = softplus<L>(L::load_first(args.time_step + t * args.time_step_stride, args.n_lanes));
    const L delta_u = delta * u;
    const float* b = args.b + t * args.bc_stride;
    const auto move = [&](std::int64_t j) {
      const L decay = exp<L>(delta * L::load(args.a + j * 16));
      const L moved = L::fma(decay, L::load(h + j * 16), delta_u * L::set1(b[j]));
      moved.store(h + j * 16);
      return moved;
    };
    if (!args.y) {
      for (std::int64_t j = 0; j < args.n_states; ++j) move(j);
      continue;
    }
    const float* c = args.c + t * args.bc_stride;
    L sum = L::zero();
    for (std::int64_t j = 0; j < args.n_states; ++j) sum = L::fma(move(j), L::set1(c[j]), sum);
    const L y = L::fma(u, L::load_first(args.d, args.n_lanes), sum);
    const L gate = L::load_first(args.gate + t * args.gate_stride, args.n_lanes);
    times<L, silu<L>>(gate, y).store_first(args.y + t * args.y_stride, args.n_lanes);
  }
}

}  // namespace mneme::kernels
