#pragma once

#include <cstdint>

#include "mneme/kernels/tiles.h"

namespace mneme::kernels {

/// Parts of R rows of floats, rounded to int8 for encoded tiles (code_product.h): x s = a c with a = max |x s| /
/// 127. A group is the part of each row that has the same scales. kScaled: there are scales, or else x itself is
/// rounded.
///
/// A part's largest element and its sums are chains of instructions that wait for each other, so the parts of up to
/// four groups go side by side and share what crosses lanes.
template <class L, int R, bool kScaled>
class RoundedRows {
 public:
  /// Row r's part is the n elements from x + r x_stride on, n a multiple of 16, and has its codes at codes + r n.
  struct Group {
    const float* x;
    std::int64_t n;
    const float *scales, *offsets;
    std::int8_t* codes;
  };
  static constexpr int kMostGroups = 64;

  /// Returns its index. At most kMostGroups can be added.
  int add(const Group& group) {
    has_usual_lengths_ = has_usual_lengths_ && group.n == 4 * kPanel;
    groups_[n_groups_] = group;
    return n_groups_++;
  }
  const Group& group(int g) const { return groups_[g]; }

  /// What became of row r's part of group g: a, -zero sum c, and the sum of x o, or of x where there are no scales.
  float scale(int g, int r) const { return scales_[g * R + r]; }
  const std::int32_t* middles(int g) const { return middles_ + g * R; }  ///< [R]
  float rest(int g, int r) const { return rests_[g * R + r]; }

  /// Rounds all groups; the tiles' codes count from `zero`. What is not finite makes a part's scale NaN, and all that
  /// comes of it.
  [[gnu::noinline]] void round(std::int64_t x_stride, float zero) {
    bool all_finite = true;
    each_few([&]<int G, int kVectors>(int g) { all_finite &= fit<G, kVectors>(g, x_stride); });
    if (all_finite) [[likely]] {
      each_few([&]<int G, int kVectors>(int g) { encode<G, kVectors, true>(g, x_stride, zero); });
    } else {
      each_few([&]<int G, int kVectors>(int g) { encode<G, kVectors, false>(g, x_stride, zero); });
    }
  }

 private:
  using Words = typename L::Words;
  static constexpr float kInfinity = __builtin_inff();

  /// f<G, kVectors>(g) for all groups, G from g on at a time; kVectors: how many sixteens of elements a part has, or 0.
  template <class F>
  [[gnu::always_inline]] void each_few(F f) {
    int g = 0;
    if (has_usual_lengths_) {
      for (; g + 4 <= n_groups_; g += 4) f.template operator()<4, 4>(g);
      for (; g + 2 <= n_groups_; g += 2) f.template operator()<2, 4>(g);
      for (; g < n_groups_; ++g) f.template operator()<1, 4>(g);
    }
    for (; g < n_groups_; ++g) f.template operator()<1, 0>(g);
  }

  /// Finds a, 1 / a and the sums of x o. Returns whether all are finite; those that are not have a NaN and a zero.
  template <int G, int kVectors>
  [[gnu::always_inline]] bool fit(int first, std::int64_t x_stride) {
    L largest[G * R], sums[G * R];
#pragma GCC unroll 4
    for (int i = 0; i < G; ++i) measure<kVectors>(groups_[first + i], x_stride, largest + i * R, sums + i * R);

    const L most = L::template largest<G * R>(largest), rest = L::template sums<G * R>(sums);
    const L infinity = L::set1(kInfinity), rest_size = magnitude(rest);
    L scale = most / L::set1(127.0f);
    L inverse = L::if_less(L::set1(0x1p-120f), most, L::set1(127.0f) / most, L::zero());
    const bool all_finite = L::all_less(most, infinity) && L::all_less(rest_size, infinity);
    if (!all_finite) [[unlikely]] {
      const L nan = L::set1(__builtin_nanf(""));
      scale = L::if_less(most, infinity, L::if_less(rest_size, infinity, scale, nan), nan);
      inverse = L::if_less(scale, infinity, inverse, L::zero());
    }
    scale.store(scales_ + first * R);
    inverse.store(inverses_ + first * R);
    rest.store(rests_ + first * R);
    return all_finite;
  }

  /// The R parts of a group: lanes whose largest is that of |x s|, and lanes whose sum is that of x o.
  template <int kVectors>
  [[gnu::always_inline]] static void measure(const Group& group, std::int64_t x_stride, L* largest, L* sums) {
    const int n = n_vectors<kVectors>(group);
    const float *rows = group.x, *scales = group.scales, *offsets = group.offsets;
    L most[R], sum[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) most[r] = sum[r] = L::zero();
    for (int v = 0; v < n; ++v) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const L x = L::load(rows + r * x_stride + v * kPanel);
        if constexpr (kScaled) {
          sum[r] = L::fma(x, L::load(offsets + v * kPanel), sum[r]);
          most[r] = L::max_magnitude(most[r], x * L::load(scales + v * kPanel));
        } else {
          sum[r] = sum[r] + x;
          most[r] = L::max_magnitude(most[r], x);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) largest[r] = most[r], sums[r] = sum[r];
  }

  /// Stores the c of G groups.
  template <int G, int kVectors, bool kFinite>
  [[gnu::always_inline]] void encode(int first, std::int64_t x_stride, float zero) {
    L sums[G * R];
#pragma GCC unroll 4
    for (int i = 0; i < G; ++i) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const float inverse = inverses_[(first + i) * R + r];
        sums[i * R + r] = codes<kVectors, kFinite>(groups_[first + i], x_stride, r, inverse);
      }
    }
    const L middle = L::template sums<G * R>(sums) * L::set1(-zero);  // exact
    Words::nearest(middle).store(middles_ + first * R);
  }

  /// Stores a part's c; returns lanes that add up to them.
  template <int kVectors, bool kFinite>
  [[gnu::always_inline]] static L codes(const Group& group, std::int64_t x_stride, int r, float inverse) {
    const int n = n_vectors<kVectors>(group);
    const float *x = group.x + r * x_stride, *scales = group.scales;
    std::int8_t* out = group.codes + r * group.n;
    const auto code = [&](int v) {
      L y = L::load(x + v * kPanel);
      if constexpr (kScaled) y = y * L::load(scales + v * kPanel);
      if constexpr (!kFinite) y = L::if_less(magnitude(y), L::set1(kInfinity), y, L::zero());
      return y * L::set1(inverse);
    };
    L sum = L::zero();
    int v = 0;
    for (; v + 4 <= n; v += 4) {
      const L four[] = {code(v), code(v + 1), code(v + 2), code(v + 3)};
      const L of_four = L::round_to_int8(four, out + v * kPanel);
      sum = kVectors == 4 ? of_four : sum + of_four;
    }
    for (; v < n; ++v) {
      const L whole = L::round(code(v));
      whole.store_int8(out + v * kPanel);
      sum = sum + whole;
    }
    return sum;
  }

  template <int kVectors>
  static int n_vectors(const Group& group) {
    return kVectors ? kVectors : static_cast<int>(group.n / kPanel);
  }
  static L magnitude(L x) { return (Words::bits_of(x) & 0x7fffffffu).as_floats(); }

  int n_groups_ = 0;
  bool has_usual_lengths_ = true;
  Group groups_[kMostGroups];
  // A set of lanes is stored at a time.
  float scales_[kMostGroups * R + kPanel], inverses_[kMostGroups * R + kPanel], rests_[kMostGroups * R + kPanel];
  std::int32_t middles_[kMostGroups * R + kPanel];
};

}  // namespace mneme::kernels
