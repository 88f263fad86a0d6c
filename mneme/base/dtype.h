#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mneme {

/// Element types that weights, activations and cache payloads are stored in.
enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

[[gnu::always_inline]] constexpr std::size_t size_of(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

/// "float32", "bfloat16", "float16": the names of config.json and of `--dtype`.
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float32";
    case DType::kBFloat16: return "bfloat16";
    case DType::kFloat16: return "float16";
  }
  return "?";
}

/// Widens bfloat16 bits exactly.
constexpr float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// Rounds to the nearest bfloat16, ties to even; a NaN stays a (quiet) NaN.
constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Widens IEEE binary16 bits exactly (subnormals, infinities and NaN included).
constexpr float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  const std::uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

/// Rounds to the nearest IEEE binary16, ties to even; overflow gives infinity.
constexpr std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    auto whole = static_cast<std::uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(whole);
    whole += rest > 0.5f || (rest == 0.5f && (whole & 1u));
    return static_cast<std::uint16_t>(sign | whole);
  }
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}

}  // namespace mneme
