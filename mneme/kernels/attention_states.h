#pragma once

#include "mneme/kernels/math.h"
#include "mneme/kernels/product.h"

/// Running states of attention, one a row: m, l, padding to sixteen floats, O (attention.h).
namespace mneme::kernels {

inline constexpr float kMinusInfinity = -__builtin_inff();

/// (m, l, O) of two spans: each is brought to the larger maximum, then they add up. A row's l is 0 only if it saw
/// nothing, since the largest p is 1.
template <class L>
void merge_states(float* total, const float* part, std::int64_t n_rows, std::int64_t value_dim) noexcept {
  const std::int64_t n_floats = attend_state_floats(value_dim);
  for (std::int64_t r = 0; r < n_rows; ++r, total += n_floats, part += n_floats) {
    if (part[1] == 0) continue;
    if (total[1] == 0) {
      for (std::int64_t i = 0; i < n_floats; i += 16) L::load(part + i).store(total + i);
      continue;
    }
    const float maximum = part[0] > total[0] ? part[0] : total[0];
    const L of_total = exp2<L>(L::set1(total[0] - maximum)), of_part = exp2<L>(L::set1(part[0] - maximum));
    // The first vector merges l in lane 1, and m is written over what becomes of it.
    for (std::int64_t i = 0; i < n_floats; i += 16) {
      L::fma(L::load(part + i), of_part, L::load(total + i) * of_total).store(total + i);
    }
    total[0] = maximum;
  }
}

/// With a sink logit, s = log2(e) times it and m' = max(m, s): out = O 2^(m - m') / (l 2^(m - m') + 2^(s - m')). None
/// is s = -inf. Zeros have no sign: whether a sum of nothing but underflow has one depends on what was added after it.
template <class L>
void finish_states(const float* states, std::int64_t n_rows, std::int64_t first_row, std::int64_t group,
                   std::int64_t value_dim, const float* sinks, float* const* out) noexcept {
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const float* state = states + r * attend_state_floats(value_dim);
    const bool saw_nothing = state[1] == 0;
    const float sink = sinks ? sinks[(first_row + r) % group] * kLog2E : kMinusInfinity;
    const float maximum = sink > state[0] ? sink : state[0];
    const L scale = exp2<L>(L::set1(state[0] - maximum));
    const L sum = L::fma(L::set1(state[1]), scale, exp2<L>(L::set1(sink - maximum)));
    for (std::int64_t i = 0; i < value_dim; i += 16) {
      const L y = saw_nothing ? L::zero() : L::fma(L::load(state + 16 + i), scale, L::zero()) / sum;
      y.store_first(out[r] + i, static_cast<int>(value_dim - i < 16 ? value_dim - i : 16));
    }
  }
}

}  // namespace mneme::kernels
