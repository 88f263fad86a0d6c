#pragma once

#include <bit>
#include <cstdint>

namespace mneme::quant {

/// The nearest e4m3 number, ties to even; beyond 448, its largest, a NaN is not to come (Micikevicius et al. 2022,
/// arXiv:2209.05433).
constexpr std::uint8_t to_float8(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  // Below 2^-6 the spacing is 2^-9: adding 2^14, whose last bit that is, rounds.
  const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 16384.0f) - 0x46800000u;
  const std::uint32_t normal = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (120u << 3);
  const std::uint32_t code = magnitude < 0x3c800000u ? small : normal;
  return static_cast<std::uint8_t>(sign | (magnitude >= 0x43e00000u ? 0x7eu : code));
}

}  // namespace mneme::quant
