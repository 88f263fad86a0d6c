#pragma once

#include <immintrin.h>

#include <cstdint>

namespace mneme::kernels {

/// Sixteen float lanes as one AVX-512 register; kVnni: with its dot products of bytes. Contracts: lanes_scalar.h.
template <bool kVnni>
struct LanesOfAvx512 {
  static constexpr int kWidth = 16;
  static constexpr int kTileRows = 12, kTilePanels = 2, kDirectSums = 27, kDotRows = 8, kDotSums = kVnni ? 24 : 8;
  __m512 v;

  static LanesOfAvx512 zero() { return {_mm512_setzero_ps()}; }
  static LanesOfAvx512 set1(float x) { return {_mm512_set1_ps(x)}; }
  static LanesOfAvx512 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static LanesOfAvx512 load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(below(n), p)}; }
  static LanesOfAvx512 load_float16(const std::uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static LanesOfAvx512 load_bfloat16(const std::uint16_t* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
  }
  static LanesOfAvx512 load_even(const std::uint16_t* pairs) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(pairs), 16))};
  }
  static LanesOfAvx512 load_odd(const std::uint16_t* pairs) { return {cleared(_mm512_loadu_si512(pairs))}; }
  static LanesOfAvx512 load_float8(const std::uint8_t* p) {
    // Bits 14 and 15 hold the sign, 7 to 13 the rest: float16 wants bit 14 clear.
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {
        _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80))))};
  }

  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_first(float* p, int n) const { _mm512_mask_storeu_ps(p, below(n), v); }
  void store_float16(std::uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  void store_bfloat16(std::uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(v), 16)));
  }
  void store_int8(std::int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
  }
  static LanesOfAvx512 round_to_int8(const LanesOfAvx512 (&x)[4], std::int8_t* p) {
    const __m512i w[] = {_mm512_cvtps_epi32(x[0].v), _mm512_cvtps_epi32(x[1].v), _mm512_cvtps_epi32(x[2].v),
                         _mm512_cvtps_epi32(x[3].v)};
    const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(w[0], w[1]), _mm512_packs_epi32(w[2], w[3]));
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(transposed(), packed));
    if constexpr (kVnni) {
      const __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), packed);
      return {_mm512_cvtepi32_ps(sums)};
    } else {
      const __m512i sums = _mm512_add_epi32(_mm512_add_epi32(w[0], w[1]), _mm512_add_epi32(w[2], w[3]));
      return {_mm512_cvtepi32_ps(sums)};
    }
  }
  static void store_pairs(LanesOfAvx512 even, LanesOfAvx512 odd, std::uint16_t* pairs) {
    const __m512i low = _mm512_srli_epi32(rounded(even.v), 16);
    _mm512_storeu_si512(pairs, _mm512_or_si512(low, _mm512_castps_si512(cleared(rounded(odd.v)))));
  }
  static void store_finite_pairs(LanesOfAvx512 even, LanesOfAvx512 odd, std::uint16_t* pairs) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(even.v), half), 16);
    const __m512i high = _mm512_add_epi32(_mm512_castps_si512(odd.v), half);
    _mm512_storeu_si512(pairs, _mm512_or_si512(low, _mm512_castps_si512(cleared(high))));
  }

  friend LanesOfAvx512 operator+(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend LanesOfAvx512 operator-(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend LanesOfAvx512 operator*(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend LanesOfAvx512 operator/(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_div_ps(a.v, b.v)}; }
  static LanesOfAvx512 fma(LanesOfAvx512 a, LanesOfAvx512 b, LanesOfAvx512 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  static LanesOfAvx512 max(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_max_ps(a.v, b.v)}; }
  static LanesOfAvx512 max_magnitude(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_range_ps(a.v, b.v, 0xb)}; }
  static LanesOfAvx512 min(LanesOfAvx512 a, LanesOfAvx512 b) { return {_mm512_min_ps(a.v, b.v)}; }
  static LanesOfAvx512 if_less(LanesOfAvx512 a, LanesOfAvx512 b, LanesOfAvx512 x, LanesOfAvx512 y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
  }
  static bool all_less(LanesOfAvx512 a, LanesOfAvx512 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ) == 0xffff; }
  template <int kHalf>
  static LanesOfAvx512 exchanged(LanesOfAvx512 a) {
    constexpr int kNeighbours = 0xb1, kPairs = 0x4e;
    if constexpr (kHalf < 4) return {_mm512_shuffle_ps(a.v, a.v, kHalf == 1 ? kNeighbours : kPairs)};
    return {_mm512_shuffle_f32x4(a.v, a.v, kHalf == 4 ? kNeighbours : kPairs)};
  }
  static LanesOfAvx512 keep(LanesOfAvx512 a, int first, int last, float fill) {
    const __mmask16 mask = static_cast<__mmask16>(below(last) & ~below(first));
    return {_mm512_mask_blend_ps(mask, _mm512_set1_ps(fill), a.v)};
  }
  static LanesOfAvx512 round(LanesOfAvx512 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static LanesOfAvx512 times_pow2(LanesOfAvx512 a, LanesOfAvx512 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
  static LanesOfAvx512 beyond_round(LanesOfAvx512 a) {
    return {_mm512_reduce_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static LanesOfAvx512 times_pow2_of(LanesOfAvx512 a, LanesOfAvx512 r, LanesOfAvx512 x) { return times_pow2(a, x - r); }
  static LanesOfAvx512 to_bfloat16_and_back(LanesOfAvx512 a) { return {cleared(rounded(a.v))}; }

  float sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), upper(v));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  float largest() const {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), upper(v));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  template <int N>
  static LanesOfAvx512 sums(const LanesOfAvx512* v) {
    return across<N>(v, [](__m512 a, __m512 b) { return _mm512_add_ps(a, b); });
  }
  template <int N>
  static LanesOfAvx512 largest(const LanesOfAvx512* v) {
    return across<N>(v, [](__m512 a, __m512 b) { return _mm512_max_ps(a, b); });
  }
  float first() const { return _mm512_cvtss_f32(v); }

  struct Words {
    __m512i v;

    static Words load(const void* p) { return {_mm512_loadu_si512(p)}; }
    static Words load_int8(const std::int8_t* p) {
      return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
    }
    static Words load_int16(const std::int16_t* p) {
      return {_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
    }
    static Words set1(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
    void store(void* p) const { _mm512_storeu_si512(p, v); }
    static Words nearest(LanesOfAvx512 a) { return {_mm512_cvtps_epi32(a.v)}; }
    static Words bits_of(LanesOfAvx512 a) { return {_mm512_castps_si512(a.v)}; }
    Words operator&(std::uint32_t mask) const {
      return {_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(mask)))};
    }
    Words operator&(Words b) const { return {_mm512_and_si512(v, b.v)}; }
    Words operator|(Words b) const { return {_mm512_or_si512(v, b.v)}; }
    Words operator^(Words b) const { return {_mm512_xor_si512(v, b.v)}; }
    Words operator^(std::uint32_t mask) const {
      return {_mm512_xor_si512(v, _mm512_set1_epi32(static_cast<int>(mask)))};
    }
    Words operator+(Words b) const { return {_mm512_add_epi32(v, b.v)}; }
    Words operator*(Words b) const { return {_mm512_mullo_epi32(v, b.v)}; }
    Words add_bytes(Words b) const { return {_mm512_add_epi8(v, b.v)}; }
    Words add_halves(Words b) const { return {_mm512_add_epi16(v, b.v)}; }
    Words low_halves(Words b) const { return {_mm512_mullo_epi16(v, b.v)}; }
    Words operator>>(int n) const { return {_mm512_srli_epi32(v, static_cast<unsigned>(n))}; }
    Words operator<<(int n) const { return {_mm512_slli_epi32(v, static_cast<unsigned>(n))}; }
    Words halved(int n) const { return {_mm512_srai_epi32(v, static_cast<unsigned>(n))}; }
    LanesOfAvx512 to_floats() const { return {_mm512_cvtepi32_ps(v)}; }
    LanesOfAvx512 as_floats() const { return {_mm512_castsi512_ps(v)}; }
  };

  // Without VNNI products of bytes are summed in pairs of 16 bits, which hold so many before they have to be widened.
  static constexpr bool kSignedDots = !kVnni, kIntegerDots = kVnni;
  template <int kBits>
  static constexpr int kDotTerms = kVnni        ? 1024
                                   : kBits == 8 ? 1
                                                : 128 >> kBits;
  template <int kBits>
  static Words dot(Words codes, std::int32_t x) {
    const __m512i four = _mm512_set1_epi32(x);
    if constexpr (kVnni) {
      return {_mm512_dpbusd_epi32(_mm512_setzero_si512(), codes.v, four)};
    } else if constexpr (kBits == 8) {
      const __m512i signed_four =
          _mm512_mask_sub_epi8(four, _mm512_movepi8_mask(codes.v), _mm512_setzero_si512(), four);
      return {_mm512_maddubs_epi16(_mm512_abs_epi8(codes.v), signed_four)};
    } else {
      return {_mm512_maddubs_epi16(codes.v, four)};
    }
  }
  template <int kBits>
  static Words dot_add(Words sum, Words codes, std::int32_t x) {
    if constexpr (kVnni) {
      return {_mm512_dpbusd_epi32(sum.v, codes.v, _mm512_set1_epi32(x))};
    } else {
      return {_mm512_add_epi16(sum.v, dot<kBits>(codes, x).v)};
    }
  }
  static Words dot_sums(Words a) {
    if constexpr (kVnni)
      return a;
    else
      return {_mm512_madd_epi16(a.v, _mm512_set1_epi16(1))};
  }

 private:
  static __mmask16 below(int n) { return static_cast<__mmask16>(n <= 0 ? 0u : n >= 16 ? 0xffffu : (1u << n) - 1u); }
  /// Lane i from lane 4 (i % 4) + i / 4.
  static __m512i transposed() { return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); }
  /// Lane i: v[i] brought down by op in the tree of `sum`, all at once: halves of two vectors come to share one, then
  /// quarters of four, and so on.
  template <int N, class Op>
  static LanesOfAvx512 across(const LanesOfAvx512* v, Op op) {
    constexpr int kTwos = (N + 1) / 2, kFours = (N + 3) / 4, kEights = (N + 7) / 8;
    static_assert(N <= 16);
    __m512 two[kTwos], four[kFours], eight[kEights];
#pragma GCC unroll 8
    for (int i = 0; i < kTwos; ++i) {
      const __m512 a = v[2 * i].v, b = v[2 * i + 1 < N ? 2 * i + 1 : 2 * i].v;
      two[i] = op(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kFours; ++i) {
      const __m512 a = two[2 * i], b = two[2 * i + 1 < kTwos ? 2 * i + 1 : 2 * i];
      four[i] = op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
#pragma GCC unroll 2
    for (int i = 0; i < kEights; ++i) {
      const __m512d a = _mm512_castps_pd(four[2 * i]),
                    b = _mm512_castps_pd(four[2 * i + 1 < kFours ? 2 * i + 1 : 2 * i]);
      eight[i] = op(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const __m512 a = eight[0], b = eight[kEights - 1];
    const __m512 all = op(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    return {_mm512_permutexvar_ps(transposed(), all)};
  }
  static __m256 upper(__m512 x) { return _mm512_extractf32x8_ps(x, 1); }
  static __m512 cleared(__m512i bits) {
    return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  /// Bits whose upper half is the nearest bfloat16 (ties to even; NaN made quiet).
  static __m512i rounded(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd_bit = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd_bit);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_or_epi32(up, is_nan, bits, _mm512_set1_epi32(0x400000));
  }
};
using LanesAvx512 = LanesOfAvx512<false>;
using LanesAvx512Vnni = LanesOfAvx512<true>;

}  // namespace mneme::kernels
