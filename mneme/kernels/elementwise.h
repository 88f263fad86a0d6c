#pragma once

#include <cstdint>

#include "mneme/kernels/math.h"

/// Norms, rotations and activations over one row of n floats. Whole steps of sixteen, then one step with the lanes past
/// n masked: an element's bits do not depend on its place.
namespace mneme::kernels {

template <class L>
[[gnu::always_inline]] inline L plus(L x, L y) noexcept {
  return x + y;
}

template <class L>
[[gnu::always_inline]] inline L relu(L x) noexcept {
  return L::if_less(x, L::zero(), L::zero(), x);
}

template <class L>
[[gnu::always_inline]] inline L silu(L x) noexcept {
  return x / (L::set1(1.0f) + exp<L>(L::zero() - x));
}

/// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), as x / (1 + e^-2u): equal, and exact in the tail.
template <class L>
[[gnu::always_inline]] inline L gelu_tanh(L x) noexcept {
  const L minus_two_u = x * L::fma(x * x, L::set1(-0.0713548163f), L::set1(-1.59576912f));
  return x / (L::set1(1.0f) + exp<L>(minus_two_u));
}

/// x (1 + erf(x / sqrt 2)) / 2
template <class L>
[[gnu::always_inline]] inline L gelu_erf(L x) noexcept {
  const L half = x * L::set1(0.5f);
  return L::fma(half, erf<L>(x * L::set1(0.707106781f)), half);
}

template <class L, L (*activation)(L) noexcept>
[[gnu::always_inline]] inline L times(L gate, L up) noexcept {
  return activation(gate) * up;
}

/// y[i] = f(x[i]). x and y may be the same.
template <class L, L (*f)(L) noexcept>
void map(const float* x, std::int64_t n, float* y) noexcept {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(L::load(x + i)).store(y + i);
  if (const auto rest = static_cast<int>(n - i)) f(L::load_first(x + i, rest)).store_first(y + i, rest);
}

/// z[i] = f(x[i], y[i]). z may be x or y.
template <class L, L (*f)(L, L) noexcept>
void map_pairs(const float* x, const float* y, std::int64_t n, float* z) noexcept {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(L::load(x + i), L::load(y + i)).store(z + i);
  if (const auto rest = static_cast<int>(n - i)) {
    f(L::load_first(x + i, rest), L::load_first(y + i, rest)).store_first(z + i, rest);
  }
}

/// y[i] = activation(gate[i]) up[i], or activation(gate[i]) where up is null.
template <class L, L (*activation)(L) noexcept>
void activate(const float* gate, const float* up, std::int64_t n, float* y) noexcept {
  if (up) {
    map_pairs<L, times<L, activation>>(gate, up, n, y);
  } else {
    map<L, activation>(gate, n, y);
  }
}

template <class L>
void add(const float* x, std::int64_t n, float* y) noexcept {
  map_pairs<L, plus<L>>(y, x, n, y);
}

/// The largest of n numbers, -infinity of none. NaN counts as infinity.
template <class L>
float largest(const float* x, std::int64_t n) noexcept {
  const L infinity = L::set1(__builtin_inff());
  const auto counted = [&](L lanes) { return L::if_less(lanes, infinity, lanes, infinity); };
  L most[4];
  for (L& of : most) of = L::zero() - infinity;
  std::int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int v = 0; v < 4; ++v) most[v] = L::max(most[v], counted(L::load(x + i + 16 * v)));
  }
  for (; i + 16 <= n; i += 16) most[0] = L::max(most[0], counted(L::load(x + i)));
  if (const auto rest = static_cast<int>(n - i)) {
    most[1] = L::max(most[1], L::keep(counted(L::load_first(x + i, rest)), 0, rest, -__builtin_inff()));
  }
  return L::max(L::max(most[0], most[1]), L::max(most[2], most[3])).largest();
}

/// The sum of squares is one chain of fused multiply-adds in sixteen lanes, then their tree.
template <class L>
void rms_norm(const float* x, const float* weight, float eps, std::int64_t n, float* y) noexcept {
  L squares = L::zero();
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) squares = L::fma(L::load(x + i), L::load(x + i), squares);
  const auto rest = static_cast<int>(n - i);
  if (rest) squares = L::fma(L::load_first(x + i, rest), L::load_first(x + i, rest), squares);

  const L scale = L::set1(1.0f / __builtin_sqrtf(squares.sum() / static_cast<float>(n) + eps));
  for (i = 0; i + 16 <= n; i += 16) (L::load(x + i) * scale * L::load(weight + i)).store(y + i);
  if (rest) (L::load_first(x + i, rest) * scale * L::load_first(weight + i, rest)).store_first(y + i, rest);
}

/// Sums as in rms_norm: first of x, then of the squares of what is left without the mean. Lanes past n count as zero.
template <class L>
void layer_norm(const float* x, const float* weight, const float* bias, float eps, std::int64_t n, float* y) noexcept {
  L sum = L::zero(), squares = L::zero();
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) sum = sum + L::load(x + i);
  const std::int64_t whole = i;
  const auto rest = static_cast<int>(n - whole);
  if (rest) sum = sum + L::load_first(x + whole, rest);
  const L mean = L::set1(sum.sum() / static_cast<float>(n));
  for (i = 0; i < whole; i += 16) squares = L::fma(L::load(x + i) - mean, L::load(x + i) - mean, squares);
  if (rest) {
    alignas(64) float centered[16] = {};
    (L::load_first(x + whole, rest) - mean).store_first(centered, rest);
    squares = L::fma(L::load(centered), L::load(centered), squares);
  }
  const L scale = L::set1(1.0f / __builtin_sqrtf(squares.sum() / static_cast<float>(n) + eps));
  for (i = 0; i < whole; i += 16) {
    L::fma((L::load(x + i) - mean) * scale, L::load(weight + i), L::load(bias + i)).store(y + i);
  }
  if (rest) {
    const L centered = (L::load_first(x + whole, rest) - mean) * scale;
    L::fma(centered, L::load_first(weight + whole, rest), L::load_first(bias + whole, rest))
        .store_first(y + whole, rest);
  }
}

/// (x1, x2) <- (x1 cos - x2 sin, x2 cos + x1 sin); in each the cosine's product is rounded first.
template <class L>
void rotate(float* x, const float* cosines, const float* sines, std::int64_t n) noexcept {
  const std::int64_t half = n / 2;
  for (std::int64_t i = 0; i < half; i += 16) {
    const auto lanes = static_cast<int>(half - i < 16 ? half - i : 16);
    const L x1 = L::load_first(x + i, lanes), x2 = L::load_first(x + half + i, lanes);
    const L cosine = L::load_first(cosines + i, lanes), sine = L::load_first(sines + i, lanes);
    L::fma(L::zero() - x2, sine, x1 * cosine).store_first(x + i, lanes);
    L::fma(x1, sine, x2 * cosine).store_first(x + half + i, lanes);
  }
}

}  // namespace mneme::kernels
