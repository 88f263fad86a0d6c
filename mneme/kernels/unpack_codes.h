#pragma once

#include "mneme/kernels/codes.h"

/// The codes of a tile (codes.h), quad after quad.
namespace mneme::kernels {

/// Up to eight quads, the first of which begins a byte of each plane.
template <class L, int kBits>
struct Quads {
  const std::byte *low, *high;  ///< where they lie in the plane, and in that of the highest bits of 3

  [[gnu::always_inline]] static Quads at(const std::byte* tile, std::int64_t n_quads, std::int64_t first) {
    if constexpr (kBits == 3)
      return {tile + first / 4 * 64, tile + TileCodes::plane_bytes(2, n_quads) + first / 8 * 64};
    return {tile + first / (8 / kBits) * 64, nullptr};
  }

  /// Codes of 2 and 4 bits need no shift, or half of them, where sums of every other quad are kept apart: `at_level`
  /// gives the codes of quad i times 2^(kBits l) for its level l = i % kLevels.
  static constexpr int kLevels = kBits == 2 || kBits == 4 ? 2 : 1;
  [[gnu::always_inline]] typename L::Words at_level(int i) const {
    if constexpr (kLevels == 1) {
      return (*this)[i];
    } else {
      constexpr int kShare = 8 / kBits;
      constexpr std::uint32_t kMask = 0x01010101u * ((1u << kBits) - 1);
      const auto pair = L::Words::load(low + i / kShare * 64);
      const int shift = i % kShare / 2 * 2 * kBits;
      return (shift ? pair >> shift : pair) & (i % 2 ? kMask << kBits : kMask);
    }
  }

  /// Four codes of each lane, a byte each.
  [[gnu::always_inline]] typename L::Words operator[](int i) const {
    if constexpr (kBits == 8) {
      return L::Words::load(low + i * 64);
    } else if constexpr (kBits == 3) {
      const auto lower = L::Words::load(low + i / 4 * 64) >> (i % 4 * 2) & 0x03030303u;
      const auto highest = L::Words::load(high);
      return lower | ((i < 2 ? highest << (2 - i) : highest >> (i - 2)) & 0x04040404u);
    } else {
      constexpr int kShare = 8 / kBits;
      constexpr std::uint32_t kMask = 0x01010101u * ((1u << kBits) - 1);
      return L::Words::load(low + i / kShare * 64) >> (i % kShare * kBits) & kMask;
    }
  }
};

template <class L, int kBits>
void unpack(const std::byte* tile, std::int64_t n_quads, std::int64_t first, int n, float* out) {
  const auto quads = Quads<L, kBits>::at(tile, n_quads, first);
  for (int i = 0; i < n; ++i) {
    typename L::Words codes = quads[i];
    for (int run = 0; run < 4; ++run, out += kPanel, codes = codes >> 8) (codes & 0xffu).to_floats().store(out);
  }
}

/// Quads [first, first + n) of a tile, first a multiple of eight and n at most eight: out [n][4 inner][16 lanes]. An
/// e4m3 number comes divided by 256.
template <class L>
void unpack_quads(const TileCodes& codes, std::int64_t n_quads, const std::byte* tile, std::int64_t first, int n,
                  float* out) {
  switch (codes.bits) {
    case 1: return unpack<L, 1>(tile, n_quads, first, n, out);
    case 2: return unpack<L, 2>(tile, n_quads, first, n, out);
    case 3: return unpack<L, 3>(tile, n_quads, first, n, out);
    case 4: return unpack<L, 4>(tile, n_quads, first, n, out);
    default: break;
  }
  if (codes.kind != CodeKind::kFloat8) return unpack<L, 8>(tile, n_quads, first, n, out);
  const auto* runs = reinterpret_cast<const std::uint8_t*>(tile) + first * 64;
  for (int run = 0; run < 4 * n; ++run) L::load_float8(runs + run * kPanel).store(out + run * kPanel);
}

}  // namespace mneme::kernels
