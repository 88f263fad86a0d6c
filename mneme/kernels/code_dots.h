#pragma once

#include <cstring>

#include "mneme/kernels/unpack_codes.h"

namespace mneme::kernels {

/// Sums of the codes of an encoded tile times rows of int8 (rounded_rows.h), integers and so the same in any order.
/// Meanwhile lines of the tile `next` are asked for, as many as are read.
template <class L, int kBits>
struct CodeDots {
  using Words = typename L::Words;

  const std::byte *tile, *next;
  std::int64_t n_quads, panel_quads;  ///< of the tile and of a panel

  /// Codes of 8 bits become signed bytes where dot products want those, which takes their middle off.
  static constexpr bool kSignedBytes = kBits == 8 && L::kSignedDots;
  /// What codes are counted from.
  static constexpr float kZero = kSignedBytes ? 0 : 1 << (kBits - 1);
  /// Sums for each row and panel (Quads::at_level).
  static constexpr int kLevels = L::kIntegerDots ? Quads<L, kBits>::kLevels : 1;

  /// sums[p][r] = middles[r] + sum over i < n of x[r n + i] times the code of inner element k + i in panel
  /// `panel` + p.
  template <int R, int P>
  [[gnu::always_inline]] void sum(std::int64_t panel, std::int64_t k, std::int64_t n, const std::int8_t* x,
                                  const std::int32_t* middles, Words (&sums)[P][R]) const {
    Words higher[P][R];
    for (int p = 0; p < P; ++p) {
      for (int r = 0; r < R; ++r) {
        sums[p][r] = Words::set1(middles[r]);
        if constexpr (kLevels > 1) higher[p][r] = Words::set1(0);
      }
    }
    std::int64_t quad = panel * panel_quads + k / 4;
    const std::int64_t end = quad + n / 4;
    for (; quad + 8 <= end; quad += 8, x += 32) add<8>(quad, x, n, sums, higher);
    if (quad < end) add<4>(quad, x, n, sums, higher);
    if constexpr (kLevels > 1) {
      for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r) sums[p][r] = sums[p][r] + higher[p][r].halved(kBits);
      }
    }
  }

 private:
  /// Adds kQuads quads' products; those of the second level, where there is one, to `higher`.
  template <int kQuads, int R, int P>
  [[gnu::always_inline]] void add(std::int64_t first, const std::int8_t* x, std::int64_t x_stride, Words (&sums)[P][R],
                                  Words (&higher)[P][R]) const {
    constexpr int kTerms = L::template kDotTerms<kBits>;
    Quads<L, kBits> quads[P];
    for (int p = 0; p < P; ++p) {
      quads[p] = Quads<L, kBits>::at(tile, n_quads, first + p * panel_quads);
      for (int line = 0; line < kQuads * kBits / 8; ++line)
        __builtin_prefetch(next + (quads[p].low - tile) + line * 64);
    }
    Words run[P][R];
#pragma GCC unroll 8
    for (int i = 0; i < kQuads; ++i) {
      for (int p = 0; p < P; ++p) {
        Words codes = L::kIntegerDots ? quads[p].at_level(i) : quads[p][i];
        if constexpr (kSignedBytes) codes = codes ^ 0x80808080u;
        for (int r = 0; r < R; ++r) {
          std::int32_t four;
          std::memcpy(&four, x + r * x_stride + 4 * i, sizeof four);
          if constexpr (L::kIntegerDots) {
            Words& sum = i % kLevels ? higher[p][r] : sums[p][r];
            sum = L::template dot_add<kBits>(sum, codes, four);
          } else {
            run[p][r] = i % kTerms == 0 ? L::template dot<kBits>(codes, four)
                                        : L::template dot_add<kBits>(run[p][r], codes, four);
            if ((i + 1) % kTerms == 0 || i + 1 == kQuads) sums[p][r] = sums[p][r] + L::dot_sums(run[p][r]);
          }
        }
      }
    }
  }
};

}  // namespace mneme::kernels
