#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "mneme/base/dtype.h"

namespace mneme::kernels {

/// Sixteen float lanes, one at a time: what every other Lanes type must equal bit for bit.
///
/// All instruction sets work on sixteen lanes (AVX2 as two registers), and sums across lanes have one fixed tree, so a
/// kernel written over Lanes gives the same bits on all of them. Pairs are the layout of bfloat16 products: sixteen
/// (even, odd) neighbours along the inner dimension, interleaved.
struct LanesScalar {
  static constexpr int kWidth = 16;
  /// The register tile of a product: rows and panels whose sums, with weights and a value, fill the registers.
  /// kDotRows: rows of a product of integers, each of which needs two registers of sums; kDotSums: its sums of rows and
  /// panels.
  static constexpr int kTileRows = 4, kTilePanels = 1, kDirectSums = 4, kDotRows = 2, kDotSums = 1;
  float v[16];

  template <class F>
  static LanesScalar each(F f) {
    LanesScalar r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
  }

  static LanesScalar zero() { return set1(0.0f); }
  static LanesScalar set1(float x) {
    return each([&](int) { return x; });
  }
  static LanesScalar load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  /// The first n lanes, zeros after them: any n, no memory beyond is touched. So too store_first.
  static LanesScalar load_first(const float* p, int n) {
    return each([&](int i) { return i < n ? p[i] : 0.0f; });
  }
  static LanesScalar load_float16(const std::uint16_t* p) {
    return each([&](int i) { return from_float16(p[i]); });
  }
  static LanesScalar load_bfloat16(const std::uint16_t* p) {
    return each([&](int i) { return from_bfloat16(p[i]); });
  }
  static LanesScalar load_even(const std::uint16_t* pairs) {
    return each([&](int i) { return from_bfloat16(pairs[2 * i]); });
  }
  static LanesScalar load_odd(const std::uint16_t* pairs) {
    return each([&](int i) { return from_bfloat16(pairs[2 * i + 1]); });
  }

  /// Sixteen e4m3 numbers, divided by 256: their bits, moved, are those of float16.
  static LanesScalar load_float8(const std::uint8_t* p) {
    return each(
        [&](int i) { return from_float16(static_cast<std::uint16_t>((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7)); });
  }

  void store(float* p) const { std::memcpy(p, v, sizeof v); }
  void store_first(float* p, int n) const {
    for (int i = 0; i < 16 && i < n; ++i) p[i] = v[i];
  }
  void store_float16(std::uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = to_float16(v[i]);
  }
  void store_bfloat16(std::uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = to_bfloat16(v[i]);
  }
  /// Lanes that hold whole numbers of -127 to 127.
  void store_int8(std::int8_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(v[i]);
  }
  /// Rounds 64 numbers whose nearest integers are within -127 and 127 (ties to even). Returns lanes of any kind that
  /// add up to them.
  static LanesScalar round_to_int8(const LanesScalar (&x)[4], std::int8_t* p) {
    LanesScalar sums = zero();
    for (int i = 0; i < 4; ++i) {
      const LanesScalar codes = round(x[i]);
      codes.store_int8(p + 16 * i);
      sums = sums + codes;
    }
    return sums;
  }
  /// Interleaves two sets of lanes, rounded to bfloat16: the reverse of load_even and load_odd.
  static void store_pairs(LanesScalar even, LanesScalar odd, std::uint16_t* pairs) {
    for (int i = 0; i < 16; ++i) {
      pairs[2 * i] = to_bfloat16(even.v[i]);
      pairs[2 * i + 1] = to_bfloat16(odd.v[i]);
    }
  }
  /// store_pairs for finite lanes; halfway between two bfloat16 it takes the larger magnitude.
  static void store_finite_pairs(LanesScalar even, LanesScalar odd, std::uint16_t* pairs) {
    const auto near = [](float x) {
      return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + 0x8000u) >> 16);
    };
    for (int i = 0; i < 16; ++i) {
      pairs[2 * i] = near(even.v[i]);
      pairs[2 * i + 1] = near(odd.v[i]);
    }
  }

  friend LanesScalar operator+(LanesScalar a, LanesScalar b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend LanesScalar operator-(LanesScalar a, LanesScalar b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend LanesScalar operator*(LanesScalar a, LanesScalar b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend LanesScalar operator/(LanesScalar a, LanesScalar b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  /// a * b + c, rounded once.
  static LanesScalar fma(LanesScalar a, LanesScalar b, LanesScalar c) {
    return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  /// a > b ? a : b (so b where a is NaN), as the x86 instruction defines it.
  static LanesScalar max(LanesScalar a, LanesScalar b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  /// The larger of |a| and |b|; anything where one is a NaN.
  static LanesScalar max_magnitude(LanesScalar a, LanesScalar b) {
    return each([&](int i) {
      const float x = std::fabs(a.v[i]), y = std::fabs(b.v[i]);
      return x > y ? x : y;
    });
  }
  static LanesScalar min(LanesScalar a, LanesScalar b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  /// a < b ? x : y.
  static LanesScalar if_less(LanesScalar a, LanesScalar b, LanesScalar x, LanesScalar y) {
    return each([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
  }
  static bool all_less(LanesScalar a, LanesScalar b) {
    bool all = true;
    for (int i = 0; i < 16; ++i) all = all && a.v[i] < b.v[i];
    return all;
  }
  /// Lane i is a's lane i ^ kHalf; kHalf is 1, 2, 4 or 8.
  template <int kHalf>
  static LanesScalar exchanged(LanesScalar a) {
    return each([&](int i) { return a.v[i ^ kHalf]; });
  }
  /// Lanes first <= i < last of `a`, `fill` elsewhere; any integers are allowed.
  static LanesScalar keep(LanesScalar a, int first, int last, float fill) {
    return each([&](int i) { return i >= first && i < last ? a.v[i] : fill; });
  }
  /// Nearest integer, ties to even.
  static LanesScalar round(LanesScalar a) {
    return each([&](int i) { return __builtin_rintf(a.v[i]); });
  }
  /// a 2^n for integral n in [-126, 127]; else anything.
  static LanesScalar times_pow2(LanesScalar a, LanesScalar n) {
    return each([&](int i) {
      const std::int32_t exponent = n.v[i] >= -126.0f && n.v[i] <= 127.0f ? static_cast<std::int32_t>(n.v[i]) : 0;
      return a.v[i] * std::bit_cast<float>((exponent + 127) << 23);
    });
  }
  /// a - round(a), from -1/2 to 1/2.
  static LanesScalar beyond_round(LanesScalar a) {
    return each([&](int i) { return a.v[i] - __builtin_rintf(a.v[i]); });
  }
  /// a 2^(x - r) for r = beyond_round(x), a between 1 and 2^r, x up to 127. Below 2^-126 it is zero: denormals are
  /// flushed.
  static LanesScalar times_pow2_of(LanesScalar a, LanesScalar r, LanesScalar x) {
    return if_less(x, set1(-126.0f), zero(), times_pow2(a, x - r));
  }
  /// Rounds each lane to the nearest bfloat16 and widens it again.
  static LanesScalar to_bfloat16_and_back(LanesScalar a) {
    return each([&](int i) { return from_bfloat16(to_bfloat16(a.v[i])); });
  }

  /// Sum of all lanes: halves added, then quarters, eighths, neighbours.
  float sum() const {
    float t[16];
    std::memcpy(t, v, sizeof t);
    for (int half = 8; half; half /= 2) {
      for (int i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
    }
    return t[0];
  }
  /// The largest lane, by `max` in the same tree.
  float largest() const {
    float t[16];
    std::memcpy(t, v, sizeof t);
    for (int half = 8; half; half /= 2) {
      for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
    }
    return t[0];
  }
  /// Lane i: v[i].sum(), of N <= 16; the lanes after them hold anything that some v[i] gives, or zero. So too largest.
  template <int N>
  static LanesScalar sums(const LanesScalar* v) {
    return each([&](int i) { return i < N ? v[i].sum() : 0.0f; });
  }
  template <int N>
  static LanesScalar largest(const LanesScalar* v) {
    return each([&](int i) { return i < N ? v[i].largest() : 0.0f; });
  }
  float first() const { return v[0]; }

  /// Sixteen lanes of 32 bits.
  struct Words {
    std::uint32_t u[16];

    template <class F>
    static Words each(F f) {
      Words r;
      for (int i = 0; i < 16; ++i) r.u[i] = f(i);
      return r;
    }
    static Words set1(std::int32_t x) {
      return each([&](int) { return static_cast<std::uint32_t>(x); });
    }
    static Words load(const void* p) {
      Words r;
      std::memcpy(r.u, p, sizeof r.u);
      return r;
    }
    /// Sixteen signed integers.
    static Words load_int8(const std::int8_t* p) {
      return each([&](int i) { return static_cast<std::uint32_t>(p[i]); });
    }
    static Words load_int16(const std::int16_t* p) {
      return each([&](int i) { return static_cast<std::uint32_t>(p[i]); });
    }
    void store(void* p) const { std::memcpy(p, u, sizeof u); }
    /// Nearest integers.
    static Words nearest(LanesScalar a) {
      return each(
          [&](int i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(__builtin_rintf(a.v[i]))); });
    }
    static Words bits_of(LanesScalar a) {
      return each([&](int i) { return std::bit_cast<std::uint32_t>(a.v[i]); });
    }
    Words operator&(std::uint32_t mask) const {
      return each([&](int i) { return u[i] & mask; });
    }
    Words operator&(Words b) const {
      return each([&](int i) { return u[i] & b.u[i]; });
    }
    Words operator|(Words b) const {
      return each([&](int i) { return u[i] | b.u[i]; });
    }
    Words operator^(Words b) const {
      return each([&](int i) { return u[i] ^ b.u[i]; });
    }
    Words operator^(std::uint32_t mask) const {
      return each([&](int i) { return u[i] ^ mask; });
    }
    /// As integers.
    Words operator+(Words b) const {
      return each([&](int i) { return u[i] + b.u[i]; });
    }
    /// The lower 32 bits of products.
    Words operator*(Words b) const {
      return each([&](int i) { return u[i] * b.u[i]; });
    }
    /// As 64 bytes.
    Words add_bytes(Words b) const {
      return each(
          [&](int i) { return ((u[i] & 0x7f7f7f7fu) + (b.u[i] & 0x7f7f7f7fu)) ^ ((u[i] ^ b.u[i]) & 0x80808080u); });
    }
    /// As 32 halves of 16 bits; of their products the lower 16.
    Words add_halves(Words b) const {
      return each([&](int i) { return ((u[i] + b.u[i]) & 0xffffu) | ((u[i] >> 16) + (b.u[i] >> 16)) << 16; });
    }
    Words low_halves(Words b) const {
      return each([&](int i) {
        return ((u[i] & 0xffffu) * (b.u[i] & 0xffffu) & 0xffffu) | (u[i] >> 16) * (b.u[i] >> 16) << 16;
      });
    }
    /// By 0 to 31.
    Words operator>>(int n) const {
      return each([&](int i) { return u[i] >> n; });
    }
    Words operator<<(int n) const {
      return each([&](int i) { return u[i] << n; });
    }
    /// Integers over 2^n, rounded down.
    Words halved(int n) const {
      return each([&](int i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(u[i]) >> n); });
    }
    /// Integers as the nearest floats.
    LanesScalar to_floats() const {
      return LanesScalar::each([&](int i) { return static_cast<float>(static_cast<std::int32_t>(u[i])); });
    }
    LanesScalar as_floats() const {
      return LanesScalar::each([&](int i) { return std::bit_cast<float>(u[i]); });
    }
  };

  /// Integer dot products: lane i gets the sum over j of codes' byte 4i + j times byte j of x, which is signed and
  /// above -128. Codes are unsigned and below 2^kBits; where kBits is 8 they are signed if kSignedDots is true, or else
  /// 128 more, unsigned. What `dot` returns is an instruction set's own form of a sum, of which `dot_sums` makes
  /// integers: `dot_add` may make it kDotTerms products long. With kIntegerDots it is integers already, of any length.
  static constexpr bool kSignedDots = true, kIntegerDots = true;
  template <int kBits>
  static constexpr int kDotTerms = 1024;
  template <int kBits>
  static Words dot(Words codes, std::int32_t x) {
    return Words::each([&](int i) {
      std::int32_t sum = 0;
      for (int j = 0; j < 32; j += 8) {
        const std::uint32_t code = codes.u[i] >> j & 0xffu;
        const std::int32_t value = kBits == 8 ? static_cast<std::int8_t>(code) : static_cast<std::int32_t>(code);
        sum += value * static_cast<std::int8_t>(static_cast<std::uint32_t>(x) >> j & 0xffu);
      }
      return static_cast<std::uint32_t>(sum);
    });
  }
  template <int kBits>
  static Words dot_add(Words sum, Words codes, std::int32_t x) {
    return sum + dot<kBits>(codes, x);
  }
  static Words dot_sums(Words a) { return a; }
};

}  // namespace mneme::kernels
