#pragma once

#include "mneme/kernels/state_args.h"

namespace mneme::kernels {

template <class L>
void causal_conv(const ConvArgs& args) noexcept {
  for (std::int64_t i = 0; i < args.n; i += 16) {
    const auto lanes = static_cast<int>(args.n - i < 16 ? args.n - i : 16);
    L sum = L::zero();
    for (std::int64_t k = 0; k < args.n_taps; ++k) {
      sum = L::fma(L::load_first(args.weight + k * args.n + i, lanes), L::load_first(args.taps[k] + i, lanes), sum);
    }
    if (args.bias) sum = sum + L::load_first(args.bias + i, lanes);
    sum.store_first(args.y + i, lanes);
  }
}

}  // namespace mneme::kernels
