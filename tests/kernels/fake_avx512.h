#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "mneme/base/dtype.h"

/// The AVX-512 instructions that lanes_avx512.h uses, in plain C++ after Intel's manual, so that its sixteen lanes can
/// be held against the scalar ones on any machine. They stand in the namespace of the lanes and so hide the real ones;
/// the lanes get another name, since a program may hold both.
///
/// Include this in a file of its own: real AVX and AVX-512 are out of reach after it.

// Without optimization these are macros.
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _mm512_srai_epi32
#undef _mm512_setr_epi32
#undef _mm512_range_ps
#undef _mm512_shuffle_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_cmp_ps_mask
#undef _mm512_cmpgt_epi32_mask
#undef _mm512_cvtps_ph
#undef _mm512_roundscale_ps
#undef _mm512_reduce_ps
#undef _mm512_extractf32x8_ps
#undef _mm256_extractf128_ps
#undef _mm256_slli_epi16

namespace mneme::kernels {

struct __m512 {
  float f[16];
};
struct __m512d {
  double d[8];
};
struct __m512i {
  std::uint32_t u[16];
};
struct __m256 {
  float f[8];
};
struct __m256i {
  std::uint16_t h[16];
};
using __mmask16 = std::uint16_t;
using __mmask64 = std::uint64_t;

template <class F>
__m512 each_float(F f) {
  __m512 r;
  for (int i = 0; i < 16; ++i) r.f[i] = f(i);
  return r;
}
template <class F>
__m512i each_integer(F f) {
  __m512i r;
  for (int i = 0; i < 16; ++i) r.u[i] = f(i);
  return r;
}
template <class F>
__mmask16 each_bit(F f) {
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) mask |= (f(i) ? 1u : 0u) << i;
  return static_cast<__mmask16>(mask);
}

// Loads and stores. A masked one touches no lane whose bit is clear.
[[gnu::noinline]] inline __m512 _mm512_loadu_ps(const float* p) {
  return each_float([=](int i) { return p[i]; });
}
[[gnu::noinline]] inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const float* p) {
  return each_float([=](int i) { return mask >> i & 1 ? p[i] : 0.0f; });
}
inline void _mm512_storeu_ps(float* p, __m512 a) { std::memcpy(p, a.f, sizeof a.f); }
inline void _mm512_mask_storeu_ps(float* p, __mmask16 mask, __m512 a) {
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) p[i] = a.f[i];
  }
}
[[gnu::noinline]] inline __m512i _mm512_loadu_si512(const void* p) {
  __m512i r;
  std::memcpy(r.u, p, sizeof r.u);
  return r;
}
inline void _mm512_storeu_si512(void* p, __m512i a) { std::memcpy(p, a.u, sizeof a.u); }
inline __m256i _mm256_loadu_si256(const __m256i* p) {
  __m256i r;
  std::memcpy(r.h, p, sizeof r.h);
  return r;
}
inline void _mm256_storeu_si256(__m256i* p, __m256i a) { std::memcpy(static_cast<void*>(p), a.h, sizeof a.h); }

// Constants, and the same bits under another type.
[[gnu::noinline]] inline __m512 _mm512_set1_ps(float x) {
  return each_float([=](int) { return x; });
}
[[gnu::noinline]] inline __m512 _mm512_setzero_ps() { return _mm512_set1_ps(0.0f); }
[[gnu::noinline]] inline __m512i _mm512_set1_epi32(int x) {
  return each_integer([=](int) { return static_cast<std::uint32_t>(x); });
}
[[gnu::noinline]] inline __m512 _mm512_castsi512_ps(__m512i a) { return std::bit_cast<__m512>(a); }
[[gnu::noinline]] inline __m512i _mm512_castps_si512(__m512 a) { return std::bit_cast<__m512i>(a); }
[[gnu::noinline]] inline __m512d _mm512_castps_pd(__m512 a) { return std::bit_cast<__m512d>(a); }
[[gnu::noinline]] inline __m512 _mm512_castpd_ps(__m512d a) { return std::bit_cast<__m512>(a); }
inline float _mm512_cvtss_f32(__m512 a) { return a.f[0]; }

// Integers.
[[gnu::noinline]] inline __m512i _mm512_slli_epi32(__m512i a, unsigned n) {
  return each_integer([=](int i) { return n > 31 ? 0 : a.u[i] << n; });
}
[[gnu::noinline]] inline __m512i _mm512_srli_epi32(__m512i a, unsigned n) {
  return each_integer([=](int i) { return n > 31 ? 0 : a.u[i] >> n; });
}
[[gnu::noinline]] inline __m512i _mm512_srai_epi32(__m512i a, unsigned n) {
  return each_integer([=](int i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(a.u[i]) >> n); });
}
[[gnu::noinline]] inline __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return each_integer([=](int i) { return a.u[i] & b.u[i]; });
}
[[gnu::noinline]] inline __m512i _mm512_or_si512(__m512i a, __m512i b) {
  return each_integer([=](int i) { return a.u[i] | b.u[i]; });
}
[[gnu::noinline]] inline __m512i _mm512_xor_si512(__m512i a, __m512i b) {
  return each_integer([=](int i) { return a.u[i] ^ b.u[i]; });
}
[[gnu::noinline]] inline __m512i _mm512_mask_or_epi32(__m512i source, __mmask16 mask, __m512i a, __m512i b) {
  return each_integer([=](int i) { return mask >> i & 1 ? a.u[i] | b.u[i] : source.u[i]; });
}
/// A register as elements of T, each f(i).
template <class T, class F>
__m512i each_of(F f) {
  T elements[64 / sizeof(T)];
  for (int i = 0; i < static_cast<int>(64 / sizeof(T)); ++i) elements[i] = static_cast<T>(f(i));
  __m512i r;
  std::memcpy(&r, elements, sizeof r);
  return r;
}
template <class T>
T element(const __m512i& a, int i) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&a) + i * static_cast<int>(sizeof(T)), sizeof value);
  return value;
}
[[gnu::noinline]] inline __m512i _mm512_setzero_si512() {
  return each_integer([](int) { return 0u; });
}
[[gnu::noinline]] inline __m512i _mm512_set1_epi16(short x) {
  return each_of<std::int16_t>([=](int) { return x; });
}
[[gnu::noinline]] inline __m512i _mm512_set1_epi8(char x) {
  return each_of<std::int8_t>([=](int) { return x; });
}
template <class... T>
__m512i _mm512_setr_epi32(T... x) {
  return {{static_cast<std::uint32_t>(x)...}};
}
/// Groups of four words of `a` and of `b` by turns, halved with saturation. So too packs_epi16.
[[gnu::noinline]] inline __m512i _mm512_packs_epi32(__m512i a, __m512i b) {
  return each_of<std::int16_t>(
      [&](int i) { return std::clamp(element<std::int32_t>(i % 8 < 4 ? a : b, i / 8 * 4 + i % 4), -32768, 32767); });
}
[[gnu::noinline]] inline __m512i _mm512_packs_epi16(__m512i a, __m512i b) {
  return each_of<std::int8_t>(
      [&](int i) { return std::clamp<int>(element<std::int16_t>(i % 16 < 8 ? a : b, i / 16 * 8 + i % 8), -128, 127); });
}
[[gnu::noinline]] inline __m512i _mm512_permutexvar_epi32(__m512i from, __m512i a) {
  return each_integer([=](int i) { return a.u[from.u[i] % 16]; });
}
inline __mmask64 _mm512_movepi8_mask(__m512i a) {
  __mmask64 mask = 0;
  for (int i = 0; i < 64; ++i) mask |= static_cast<__mmask64>(element<std::int8_t>(a, i) < 0) << i;
  return mask;
}
[[gnu::noinline]] inline __m512i _mm512_abs_epi8(__m512i a) {
  return each_of<std::int8_t>([&](int i) { return std::abs(element<std::int8_t>(a, i)); });
}
[[gnu::noinline]] inline __m512i _mm512_mask_sub_epi8(__m512i other, __mmask64 mask, __m512i a, __m512i b) {
  return each_of<std::int8_t>([&](int i) {
    return mask >> i & 1 ? element<std::int8_t>(a, i) - element<std::int8_t>(b, i) : element<std::int8_t>(other, i);
  });
}
[[gnu::noinline]] inline __m512i _mm512_add_epi16(__m512i a, __m512i b) {
  return each_of<std::int16_t>([&](int i) { return element<std::int16_t>(a, i) + element<std::int16_t>(b, i); });
}
[[gnu::noinline]] inline __m512i _mm512_add_epi8(__m512i a, __m512i b) {
  return each_of<std::int8_t>([&](int i) { return element<std::int8_t>(a, i) + element<std::int8_t>(b, i); });
}
[[gnu::noinline]] inline __m512i _mm512_mullo_epi16(__m512i a, __m512i b) {
  return each_of<std::int16_t>([&](int i) { return element<std::int16_t>(a, i) * element<std::int16_t>(b, i); });
}
[[gnu::noinline]] inline __m512i _mm512_mullo_epi32(__m512i a, __m512i b) {
  return each_integer([=](int i) { return a.u[i] * b.u[i]; });
}
[[gnu::noinline]] inline __m512i _mm512_maddubs_epi16(__m512i a, __m512i b) {
  return each_of<std::int16_t>([&](int i) {
    int sum = 0;
    for (int j = 2 * i; j < 2 * i + 2; ++j) sum += element<std::uint8_t>(a, j) * element<std::int8_t>(b, j);
    return sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum;
  });
}
[[gnu::noinline]] inline __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
  return each_of<std::int32_t>([&](int i) {
    std::uint32_t total = sum.u[i];
    for (int j = 4 * i; j < 4 * i + 4; ++j) {
      total += static_cast<std::uint32_t>(element<std::uint8_t>(a, j) * element<std::int8_t>(b, j));
    }
    return static_cast<std::int32_t>(total);
  });
}
[[gnu::noinline]] inline __m512i _mm512_madd_epi16(__m512i a, __m512i b) {
  return each_of<std::int32_t>([&](int i) {
    return element<std::int16_t>(a, 2 * i) * element<std::int16_t>(b, 2 * i) +
           element<std::int16_t>(a, 2 * i + 1) * element<std::int16_t>(b, 2 * i + 1);
  });
}
[[gnu::noinline]] inline __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return each_integer([=](int i) { return a.u[i] + b.u[i]; });
}
inline __mmask16 _mm512_cmpgt_epi32_mask(__m512i a, __m512i b) {
  return each_bit([=](int i) { return static_cast<std::int32_t>(a.u[i]) > static_cast<std::int32_t>(b.u[i]); });
}

inline __m256i _mm256_set1_epi16(short x) {
  __m256i r;
  for (std::uint16_t& half : r.h) half = static_cast<std::uint16_t>(x);
  return r;
}
inline __m256i _mm256_slli_epi16(__m256i a, int n) {
  for (std::uint16_t& half : a.h) half = static_cast<std::uint16_t>(half << n);
  return a;
}
inline __m256i _mm256_and_si256(__m256i a, __m256i b) {
  for (int i = 0; i < 16; ++i) a.h[i] = a.h[i] & b.h[i];
  return a;
}

// Conversions.
[[gnu::noinline]] inline __m512 _mm512_cvtph_ps(__m256i a) {
  return each_float([=](int i) { return from_float16(a.h[i]); });
}
inline __m256i _mm512_cvtps_ph(__m512 a, int /*to nearest*/) {
  __m256i r;
  for (int i = 0; i < 16; ++i) r.h[i] = to_float16(a.f[i]);
  return r;
}
[[gnu::noinline]] inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
  return each_integer([=](int i) { return a.h[i]; });
}
inline __m256i _mm512_cvtepi32_epi16(__m512i a) {
  __m256i r;
  for (int i = 0; i < 16; ++i) r.h[i] = static_cast<std::uint16_t>(a.u[i]);
  return r;
}
[[gnu::noinline]] inline __m512i _mm512_cvtepi16_epi32(__m256i a) {
  return each_integer([=](int i) { return static_cast<std::uint32_t>(static_cast<std::int16_t>(a.h[i])); });
}
[[gnu::noinline]] inline __m512i _mm512_cvtepi8_epi32(__m128i a) {
  std::int8_t bytes[16];
  std::memcpy(bytes, &a, sizeof bytes);
  return each_integer([&](int i) { return static_cast<std::uint32_t>(bytes[i]); });
}
inline __m256i _mm256_cvtepi8_epi16(__m128i a) {
  std::int8_t bytes[16];
  std::memcpy(bytes, &a, sizeof bytes);
  __m256i r;
  for (int i = 0; i < 16; ++i) r.h[i] = static_cast<std::uint16_t>(bytes[i]);
  return r;
}
[[gnu::noinline]] inline __m512 _mm512_cvtepi32_ps(__m512i a) {
  return each_float([=](int i) { return static_cast<float>(static_cast<std::int32_t>(a.u[i])); });
}
[[gnu::noinline]] inline __m512i _mm512_cvtps_epi32(__m512 a) {
  return each_integer([=](int i) { return static_cast<std::uint32_t>(std::lrintf(a.f[i])); });
}
/// Saturates.
inline __m128i _mm512_cvtsepi32_epi8(__m512i a) {
  std::int8_t bytes[16];
  for (int i = 0; i < 16; ++i)
    bytes[i] = static_cast<std::int8_t>(std::clamp(static_cast<std::int32_t>(a.u[i]), -128, 127));
  __m128i r;
  std::memcpy(&r, bytes, sizeof r);
  return r;
}
[[gnu::noinline]] inline __m512 _mm512_roundscale_ps(__m512 a, int /*to nearest integer*/) {
  return each_float([=](int i) { return std::nearbyintf(a.f[i]); });
}

// Arithmetic.
[[gnu::noinline]] inline __m512 _mm512_add_ps(__m512 a, __m512 b) {
  return each_float([=](int i) { return a.f[i] + b.f[i]; });
}
[[gnu::noinline]] inline __m512 _mm512_sub_ps(__m512 a, __m512 b) {
  return each_float([=](int i) { return a.f[i] - b.f[i]; });
}
[[gnu::noinline]] inline __m512 _mm512_mul_ps(__m512 a, __m512 b) {
  return each_float([=](int i) { return a.f[i] * b.f[i]; });
}
[[gnu::noinline]] inline __m512 _mm512_div_ps(__m512 a, __m512 b) {
  return each_float([=](int i) { return a.f[i] / b.f[i]; });
}
[[gnu::noinline]] inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return each_float([=](int i) { return std::fma(a.f[i], b.f[i], c.f[i]); });
}
/// The second operand if either is NaN or both are zeros.
[[gnu::noinline]] inline __m512 _mm512_max_ps(__m512 a, __m512 b) {
  return each_float([=](int i) { return a.f[i] > b.f[i] ? a.f[i] : b.f[i]; });
}
[[gnu::noinline]] inline __m512 _mm512_min_ps(__m512 a, __m512 b) {
  return each_float([=](int i) { return a.f[i] < b.f[i] ? a.f[i] : b.f[i]; });
}
/// For 0xb: the larger magnitude.
[[gnu::noinline]] inline __m512 _mm512_range_ps(__m512 a, __m512 b, int /*0xb*/) {
  return each_float([=](int i) { return std::fmax(std::fabs(a.f[i]), std::fabs(b.f[i])); });
}
/// a minus its nearest integer; zero of an infinity.
[[gnu::noinline]] inline __m512 _mm512_reduce_ps(__m512 a, int /*to nearest integer*/) {
  return each_float([=](int i) { return std::isinf(a.f[i]) ? 0.0f : a.f[i] - std::nearbyintf(a.f[i]); });
}
/// a 2^n for integral n; denormals are flushed.
[[gnu::noinline]] inline __m512 _mm512_scalef_ps(__m512 a, __m512 n) {
  return each_float([=](int i) {
    if (std::isnan(n.f[i])) return n.f[i];
    const float power = std::scalbnf(a.f[i], static_cast<int>(std::clamp(n.f[i], -1000.0f, 1000.0f)));
    return std::fabs(power) < std::numeric_limits<float>::min() ? std::copysign(0.0f, power) : power;
  });
}
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int /*less, ordered*/) {
  return each_bit([=](int i) { return a.f[i] < b.f[i]; });
}
/// b where the bit is set.
[[gnu::noinline]] inline __m512 _mm512_mask_blend_ps(__mmask16 mask, __m512 a, __m512 b) {
  return each_float([=](int i) { return mask >> i & 1 ? b.f[i] : a.f[i]; });
}

// Across lanes. Two of a's pieces, then two of b's, as two bits each say: of the register's quarters, or of each
// quarter.
[[gnu::noinline]] inline __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int which) {
  return each_float([=](int i) { return (i < 8 ? a : b).f[(which >> i / 4 * 2 & 3) * 4 + i % 4]; });
}
[[gnu::noinline]] inline __m512 _mm512_shuffle_ps(__m512 a, __m512 b, int which) {
  return each_float([=](int i) { return (i % 4 < 2 ? a : b).f[i / 4 * 4 + (which >> i % 4 * 2 & 3)]; });
}
[[gnu::noinline]] inline __m512d _mm512_unpacklo_pd(__m512d a, __m512d b) {
  __m512d r;
  for (int i = 0; i < 8; ++i) r.d[i] = (i % 2 ? b : a).d[i / 2 * 2];
  return r;
}
[[gnu::noinline]] inline __m512d _mm512_unpackhi_pd(__m512d a, __m512d b) {
  __m512d r;
  for (int i = 0; i < 8; ++i) r.d[i] = (i % 2 ? b : a).d[i / 2 * 2 + 1];
  return r;
}
[[gnu::noinline]] inline __m512 _mm512_permutexvar_ps(__m512i from, __m512 a) {
  return each_float([=](int i) { return a.f[from.u[i] % 16]; });
}

// Halves.
inline __m256 _mm512_castps512_ps256(__m512 a) {
  __m256 r;
  std::memcpy(r.f, a.f, sizeof r.f);
  return r;
}
inline __m256 _mm512_extractf32x8_ps(__m512 a, int half) {
  __m256 r;
  std::memcpy(r.f, a.f + 8 * half, sizeof r.f);
  return r;
}
inline __m256 _mm256_add_ps(__m256 a, __m256 b) {
  for (int i = 0; i < 8; ++i) a.f[i] = a.f[i] + b.f[i];
  return a;
}
inline __m256 _mm256_max_ps(__m256 a, __m256 b) {
  for (int i = 0; i < 8; ++i) a.f[i] = a.f[i] > b.f[i] ? a.f[i] : b.f[i];
  return a;
}
inline __m128 _mm256_castps256_ps128(__m256 a) { return _mm_loadu_ps(a.f); }
inline __m128 _mm256_extractf128_ps(__m256 a, int half) { return _mm_loadu_ps(a.f + 4 * half); }

}  // namespace mneme::kernels

#define LanesOfAvx512 LanesOfFakeAvx512
#define LanesAvx512 LanesFakeAvx512
#define LanesAvx512Vnni LanesFakeAvx512Vnni
#include "mneme/kernels/lanes_avx512.h"
#undef LanesOfAvx512
#undef LanesAvx512
#undef LanesAvx512Vnni
