#pragma once

#include <cstdint>

#include "mneme/kernels/code_product.h"

namespace mneme::kernels {

inline constexpr int kLanesResults = 60;

/// Lanes without what is not finite or is denormal.
template <class L>
L finite(L a) {
  return L::min(L::max(L::set1(-1e18f), a), L::set1(1e18f)) + L::zero();
}
/// Sums and largest lanes of the first N of v.
template <int N, class L, class Put>
void put_first(const L* v, Put put) {
  put(L::keep(L::template sums<N>(v), 0, N, 0));
  put(L::keep(L::template largest<N>(v) + L::zero(), 0, N, 0));
}

/// Applies everything that a Lanes type can do to sixteen lanes a, b, c, halves [32] and two integers; the bits of each
/// result are sixteen words of out [kLanesResults][16]. Returns how many there are.
template <class L>
int apply_all(const float* a_lanes, const float* b_lanes, const float* c_lanes, const std::uint16_t* halves, int i,
              int j, std::uint32_t (*out)[16]) {
  int n = 0;
  const auto put = [&](L lanes) { lanes.store(reinterpret_cast<float*>(out[n++])); };
  const L a = L::load(a_lanes), b = L::load(b_lanes), c = L::load(c_lanes);

  put(L::zero());
  put(L::set1(a_lanes[3]));
  put(a);
  put(L::load_first(a_lanes, i));
  put(L::load_float16(halves));
  put(L::load_bfloat16(halves));
  put(L::load_even(halves));
  put(L::load_odd(halves));

  put(L::load_float8(reinterpret_cast<const std::uint8_t*>(halves)));
  using Words = typename L::Words;
  put(Words::load_int8(reinterpret_cast<const std::int8_t*>(halves)).to_floats());
  put(Words::load_int16(reinterpret_cast<const std::int16_t*>(halves)).to_floats());
  const Words words = Words::load(halves);
  put((words & 0x0f0f0f0fu).as_floats());
  put((words >> 7 | Words::bits_of(a) << 3).as_floats());
  put((words ^ 0x80808080u).as_floats());
  put(words.to_floats());
  const Words others = Words::bits_of(b);
  put((words & others).as_floats());
  put((words ^ others).as_floats());
  put((words * others).as_floats());
  put(words.add_bytes(others).as_floats());
  put(words.low_halves(others).as_floats());
  put(words.add_halves(others).as_floats());
  put(a + b);
  put(a - b);
  put(a * b);
  put(a / b);
  put(L::fma(a, b, c));
  // The sum flushes denormals, which minimum and maximum may or may not.
  put(L::max(a, b) + L::zero());
  put(L::min(a, b) + L::zero());
  put(L::if_less(a, b, c, a));
  put(L::keep(a, i, j, b_lanes[0]));
  put(L::round(a));
  put(L::to_bfloat16_and_back(a));
  put(L::times_pow2(b, L::round(L::min(L::max(a, L::set1(-126.0f)), L::set1(127.0f)))) + L::zero());
  put(L::set1(a.sum()));
  put(L::set1(a.largest()) + L::zero());
  put(L::set1(b.first()));
  const L usual_a = finite(a), usual_b = finite(b);
  put(L::max_magnitude(usual_a, usual_b));
  put(L::set1(L::all_less(usual_a, L::max_magnitude(usual_a, usual_b)) ? 1.0f : 0.0f));
  put(L::set1(L::all_less(a, L::set1(1e38f)) ? 1.0f : 0.0f));
  const L small = L::min(L::max(L::set1(-127.4f), usual_a), L::set1(127.4f));
  put(L::beyond_round(small) + L::zero());
  const L exponent = L::min(L::zero(), usual_a), rest = L::beyond_round(exponent);
  put(L::times_pow2_of(L::fma(rest, L::set1(0.5f), L::set1(1.0f)), rest, exponent) + L::zero());
  put(Words::nearest(small).to_floats());
  put(Words::nearest(small).halved(3).to_floats());
  const L many[] = {usual_a, usual_b, c, small, a, b, usual_a * usual_b, c + small, b + b, usual_b - c, small * small};
  put_first<1>(many, put), put_first<3>(many, put), put_first<6>(many, put), put_first<11>(many, put);
  std::int8_t codes[64];
  const L four[] = {small, L::zero() - small, small * L::set1(0.5f), small * L::set1(0.25f)};
  put(L::set1(L::round_to_int8(four, codes).sum()));
  put(L::load(reinterpret_cast<const float*>(codes)));

  // Stores write their lanes and nothing else: what lies under them shows.
  for (int k = 0; k < 7; ++k) L::set1(-7.0f).store(reinterpret_cast<float*>(out[n + k]));
  a.store_first(reinterpret_cast<float*>(out[n++]), j);
  a.store_float16(reinterpret_cast<std::uint16_t*>(out[n++]));
  a.store_bfloat16(reinterpret_cast<std::uint16_t*>(out[n++]));
  L::min(L::max(L::round(a), L::set1(-127.0f)), L::set1(127.0f)).store_int8(reinterpret_cast<std::int8_t*>(out[n++]));
  L::store_pairs(a, b, reinterpret_cast<std::uint16_t*>(out[n++]));
  const L finite_a = L::min(L::max(a, L::set1(-1e38f)), L::set1(1e38f)) + L::zero(),
          finite_b = L::keep(finite_a, 0, 8, 1.5f);
  L::store_finite_pairs(finite_a, finite_b, reinterpret_cast<std::uint16_t*>(out[n++]));
  return n;
}

using ApplyAll = int (*)(const float*, const float*, const float*, const std::uint16_t*, int, int,
                         std::uint32_t (*)[16]);

/// Products of n_rows rows of floats with all panels of an encoded tile, one row of y after another; with c [n_rows]
/// they join c y.
template <class L>
void multiply_codes(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile, float* scratch,
                    const float* x, std::int64_t n_rows, float* y, const float* c) {
  const std::int64_t n_panels = TileCodes::n_panels(side, dim);
  CodeProduct<L> product(codes, side, dim, scratch);
  const typename CodeProduct<L>::Job job{.tile = tile,
                                         .next = tile,
                                         .next_scales = tile,
                                         .n_scale_bytes = 0,
                                         .x = x,
                                         .x_stride = TileCodes::inner(side, dim),
                                         .n_rows = n_rows,
                                         .first = 0,
                                         .n_panels = n_panels,
                                         .y = y,
                                         .y_stride = n_panels * kPanel,
                                         .c = c};
  product.run(&job, 1);
}
using MultiplyCodes = void (*)(const TileCodes&, TileSide, std::int64_t, const std::byte*, float*, const float*,
                               std::int64_t, float*, const float*);
extern const MultiplyCodes kMultiplyCodesAvx2;

/// apply_all over the lanes of AVX2. Both are null where the compiler has none.
extern const ApplyAll kApplyAvx2;

}  // namespace mneme::kernels
