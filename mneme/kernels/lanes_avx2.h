#pragma once

#include <immintrin.h>

#include <cstdint>

namespace mneme::kernels {

/// Sixteen float lanes as two AVX2 registers. Contracts: lanes_scalar.h.
struct LanesAvx2 {
  static constexpr int kWidth = 16;
  static constexpr int kTileRows = 6, kTilePanels = 1, kDirectSums = 5, kDotRows = 4, kDotSums = 1;
  __m256 lo, hi;

  static LanesAvx2 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static LanesAvx2 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static LanesAvx2 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static LanesAvx2 load_first(const float* p, int n) {
    return {_mm256_maskload_ps(p, first_mask(n)), _mm256_maskload_ps(p + 8, first_mask(n - 8))};
  }
  static LanesAvx2 load_float16(const std::uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static LanesAvx2 load_bfloat16(const std::uint16_t* p) { return {widen(p), widen(p + 8)}; }
  static LanesAvx2 load_even(const std::uint16_t* pairs) { return {even(pairs), even(pairs + 16)}; }
  static LanesAvx2 load_odd(const std::uint16_t* pairs) { return {odd(pairs), odd(pairs + 16)}; }
  static LanesAvx2 load_float8(const std::uint8_t* p) {
    // Bits 14 and 15 hold the sign, 7 to 13 the rest: float16 wants bit 14 clear.
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }

  void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  void store_first(float* p, int n) const {
    _mm256_maskstore_ps(p, first_mask(n), lo);
    _mm256_maskstore_ps(p + 8, first_mask(n - 8), hi);
  }
  void store_float16(std::uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT));
  }
  void store_bfloat16(std::uint16_t* p) const {
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(rounded(lo), 16), _mm256_srli_epi32(rounded(hi), 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  void store_int8(std::int8_t* p) const {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(lo), _mm256_cvtps_epi32(hi));
    const __m256i in_order = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi16(_mm256_castsi256_si128(in_order), _mm256_extracti128_si256(in_order, 1)));
  }
  static LanesAvx2 round_to_int8(const LanesAvx2 (&x)[4], std::int8_t* p) {
    LanesAvx2 codes[4];
    for (int i = 0; i < 4; ++i) {
      codes[i] = round(x[i]);
      codes[i].store_int8(p + 16 * i);
    }
    return (codes[0] + codes[1]) + (codes[2] + codes[3]);
  }
  static void store_pairs(LanesAvx2 even, LanesAvx2 odd, std::uint16_t* pairs) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs), paired(even.lo, odd.lo));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs + 16), paired(even.hi, odd.hi));
  }
  static void store_finite_pairs(LanesAvx2 even, LanesAvx2 odd, std::uint16_t* pairs) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs), paired_finite(even.lo, odd.lo));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs + 16), paired_finite(even.hi, odd.hi));
  }

  friend LanesAvx2 operator+(LanesAvx2 a, LanesAvx2 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  friend LanesAvx2 operator-(LanesAvx2 a, LanesAvx2 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  friend LanesAvx2 operator*(LanesAvx2 a, LanesAvx2 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  friend LanesAvx2 operator/(LanesAvx2 a, LanesAvx2 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  static LanesAvx2 fma(LanesAvx2 a, LanesAvx2 b, LanesAvx2 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static LanesAvx2 max(LanesAvx2 a, LanesAvx2 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static LanesAvx2 max_magnitude(LanesAvx2 a, LanesAvx2 b) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_max_ps(_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, b.lo)),
            _mm256_max_ps(_mm256_andnot_ps(sign, a.hi), _mm256_andnot_ps(sign, b.hi))};
  }
  static LanesAvx2 min(LanesAvx2 a, LanesAvx2 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static LanesAvx2 if_less(LanesAvx2 a, LanesAvx2 b, LanesAvx2 x, LanesAvx2 y) {
    return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
  }
  static bool all_less(LanesAvx2 a, LanesAvx2 b) {
    const __m256 less = _mm256_and_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ));
    return _mm256_movemask_ps(less) == 0xff;
  }
  template <int kHalf>
  static LanesAvx2 exchanged(LanesAvx2 a) {
    if constexpr (kHalf == 8) return {a.hi, a.lo};
    if constexpr (kHalf == 4) return {_mm256_permute2f128_ps(a.lo, a.lo, 1), _mm256_permute2f128_ps(a.hi, a.hi, 1)};
    constexpr int kOrder = kHalf == 1 ? 0xb1 : 0x4e;
    return {_mm256_shuffle_ps(a.lo, a.lo, kOrder), _mm256_shuffle_ps(a.hi, a.hi, kOrder)};
  }
  static LanesAvx2 keep(LanesAvx2 a, int first, int last, float fill) {
    const __m256 other = _mm256_set1_ps(fill);
    return {_mm256_blendv_ps(other, a.lo, range_mask(first, last, 0)),
            _mm256_blendv_ps(other, a.hi, range_mask(first, last, 8))};
  }
  static LanesAvx2 round(LanesAvx2 a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, kNearest), _mm256_round_ps(a.hi, kNearest)};
  }
  static LanesAvx2 times_pow2(LanesAvx2 a, LanesAvx2 n) { return a * LanesAvx2{pow2(n.lo), pow2(n.hi)}; }
  static LanesAvx2 beyond_round(LanesAvx2 a) { return a - round(a); }
  static LanesAvx2 times_pow2_of(LanesAvx2 a, LanesAvx2 r, LanesAvx2 x) {
    return if_less(x, set1(-126.0f), zero(), times_pow2(a, x - r));
  }
  static LanesAvx2 to_bfloat16_and_back(LanesAvx2 a) { return {cleared(rounded(a.lo)), cleared(rounded(a.hi))}; }

  float sum() const {
    const __m256 eight = _mm256_add_ps(lo, hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  float largest() const {
    const __m256 eight = _mm256_max_ps(lo, hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  template <int N>
  static LanesAvx2 sums(const LanesAvx2* v) {
    alignas(32) float lanes[16] = {};
    for (int i = 0; i < N; ++i) lanes[i] = v[i].sum();
    return load(lanes);
  }
  template <int N>
  static LanesAvx2 largest(const LanesAvx2* v) {
    alignas(32) float lanes[16] = {};
    for (int i = 0; i < N; ++i) lanes[i] = v[i].largest();
    return load(lanes);
  }
  float first() const { return _mm256_cvtss_f32(lo); }

  struct Words {
    __m256i lo, hi;

    static Words load(const void* p) {
      const auto* words = static_cast<const __m256i*>(p);
      return {_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
    }
    void store(void* p) const {
      auto* words = static_cast<__m256i*>(p);
      _mm256_storeu_si256(words, lo);
      _mm256_storeu_si256(words + 1, hi);
    }
    static Words load_int8(const std::int8_t* p) {
      return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
              _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
    }
    static Words load_int16(const std::int16_t* p) {
      return {_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
              _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
    }
    static Words set1(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
    static Words nearest(LanesAvx2 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
    static Words bits_of(LanesAvx2 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
    Words operator&(std::uint32_t mask) const {
      const __m256i all = _mm256_set1_epi32(static_cast<int>(mask));
      return {_mm256_and_si256(lo, all), _mm256_and_si256(hi, all)};
    }
    Words operator&(Words b) const { return {_mm256_and_si256(lo, b.lo), _mm256_and_si256(hi, b.hi)}; }
    Words operator|(Words b) const { return {_mm256_or_si256(lo, b.lo), _mm256_or_si256(hi, b.hi)}; }
    Words operator^(Words b) const { return {_mm256_xor_si256(lo, b.lo), _mm256_xor_si256(hi, b.hi)}; }
    Words operator^(std::uint32_t mask) const {
      const __m256i all = _mm256_set1_epi32(static_cast<int>(mask));
      return {_mm256_xor_si256(lo, all), _mm256_xor_si256(hi, all)};
    }
    Words operator+(Words b) const { return {_mm256_add_epi32(lo, b.lo), _mm256_add_epi32(hi, b.hi)}; }
    Words operator*(Words b) const { return {_mm256_mullo_epi32(lo, b.lo), _mm256_mullo_epi32(hi, b.hi)}; }
    Words add_bytes(Words b) const { return {_mm256_add_epi8(lo, b.lo), _mm256_add_epi8(hi, b.hi)}; }
    Words add_halves(Words b) const { return {_mm256_add_epi16(lo, b.lo), _mm256_add_epi16(hi, b.hi)}; }
    Words low_halves(Words b) const { return {_mm256_mullo_epi16(lo, b.lo), _mm256_mullo_epi16(hi, b.hi)}; }
    Words operator>>(int n) const { return {_mm256_srli_epi32(lo, n), _mm256_srli_epi32(hi, n)}; }
    Words operator<<(int n) const { return {_mm256_slli_epi32(lo, n), _mm256_slli_epi32(hi, n)}; }
    Words halved(int n) const { return {_mm256_srai_epi32(lo, n), _mm256_srai_epi32(hi, n)}; }
    LanesAvx2 to_floats() const { return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)}; }
    LanesAvx2 as_floats() const { return {_mm256_castsi256_ps(lo), _mm256_castsi256_ps(hi)}; }
  };

  // Products of bytes are summed in pairs of 16 bits, which hold this many before they have to be widened.
  static constexpr bool kSignedDots = true, kIntegerDots = false;
  template <int kBits>
  static constexpr int kDotTerms = kBits == 8 ? 1 : 128 >> kBits;
  template <int kBits>
  static Words dot(Words codes, std::int32_t x) {
    const __m256i four = _mm256_set1_epi32(x);
    if constexpr (kBits == 8) {
      return {_mm256_maddubs_epi16(_mm256_abs_epi8(codes.lo), _mm256_sign_epi8(four, codes.lo)),
              _mm256_maddubs_epi16(_mm256_abs_epi8(codes.hi), _mm256_sign_epi8(four, codes.hi))};
    } else {
      return {_mm256_maddubs_epi16(codes.lo, four), _mm256_maddubs_epi16(codes.hi, four)};
    }
  }
  template <int kBits>
  static Words dot_add(Words sum, Words codes, std::int32_t x) {
    const Words products = dot<kBits>(codes, x);
    return {_mm256_add_epi16(sum.lo, products.lo), _mm256_add_epi16(sum.hi, products.hi)};
  }
  static Words dot_sums(Words a) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(a.lo, ones), _mm256_madd_epi16(a.hi, ones)};
  }

 private:
  static __m256i first_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m256 range_mask(int first, int last, int offset) {
    const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(offset));
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane)));
  }
  static __m256 widen(const std::uint16_t* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static __m256 even(const std::uint16_t* pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)), 16));
  }
  static __m256 odd(const std::uint16_t* pairs) {
    return cleared(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)));
  }
  static __m256 cleared(__m256i bits) {
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  /// Bits whose upper half is the nearest bfloat16 (ties to even; NaN made quiet).
  static __m256i rounded(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd_bit = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd_bit);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    // By bits, not by comparing floats: under DAZ that would be the same, but this needs no proof.
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(up, quiet, is_nan);
  }
  static __m256i paired(__m256 even, __m256 odd) {
    return _mm256_or_si256(_mm256_srli_epi32(rounded(even), 16), _mm256_castps_si256(cleared(rounded(odd))));
  }
  static __m256i paired_finite(__m256 even, __m256 odd) {
    const __m256i half = _mm256_set1_epi32(0x8000);
    const __m256i low = _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(even), half), 16);
    return _mm256_blend_epi16(low, _mm256_add_epi32(_mm256_castps_si256(odd), half), 0xaa);
  }
  static __m256 pow2(__m256 n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
};

}  // namespace mneme::kernels
