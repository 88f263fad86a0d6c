#include "mneme/base/ggml_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mneme {
namespace {

std::uint16_t load16(const std::byte* data) {
  std::uint16_t bits;
  std::memcpy(&bits, data, sizeof bits);
  return bits;
}

std::uint8_t byte_at(const std::byte* data, int i) { return std::to_integer<std::uint8_t>(data[i]); }

/// 32 codes of which byte j of 16 holds element j below and element j + 16 above.
void unpack_nibbles(const std::byte* bytes, std::uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = byte_at(bytes, j) & 15u;
    codes[j + 16] = byte_at(bytes, j) >> 4;
  }
}

/// Bit j of 32 is the fifth bit of element j.
void add_fifth_bits(const std::byte* bytes, std::uint8_t* codes) {
  for (int j = 0; j < 32; ++j) {
    codes[j] = static_cast<std::uint8_t>(codes[j] | (byte_at(bytes, j / 8) >> (j % 8) & 1u) << 4);
  }
}

/// Eight pairs of six bits in twelve bytes: four bits of the later pairs lie above each other, two in what the earlier
/// ones leave free.
void unpack_steps(const std::byte* bytes, GgmlBlock& block) {
  for (int j = 0; j < 4; ++j) {
    const unsigned s = byte_at(bytes, j), t = byte_at(bytes, j + 4), both = byte_at(bytes, j + 8);
    block.scale_steps[j] = s & 63u;
    block.min_steps[j] = t & 63u;
    block.scale_steps[j + 4] = static_cast<std::uint8_t>((both & 15u) | s >> 6 << 4);
    block.min_steps[j + 4] = static_cast<std::uint8_t>(both >> 4 | t >> 6 << 4);
  }
}

/// Codes of Q4_K and Q5_K: 32 bytes hold a group below and the next one above.
void unpack_group_pairs(const std::byte* bytes, std::uint8_t* codes) {
  for (int i = 0; i < 128; ++i) {
    std::uint8_t* pair = codes + i / 32 * 64 + i % 32;
    pair[0] = byte_at(bytes, i) & 15u;
    pair[32] = byte_at(bytes, i) >> 4;
  }
}

void unpack_q6_k(const std::byte* bytes, GgmlBlock& block) {
  const std::byte *low = bytes, *high = bytes + 128;
  for (int half = 0; half < 2; ++half, low += 64, high += 32) {
    for (int i = 0; i < 32; ++i) {
      std::uint8_t* codes = block.codes + half * 128 + i;
      const unsigned a = byte_at(low, i), b = byte_at(low, i + 32), h = byte_at(high, i);
      codes[0] = static_cast<std::uint8_t>((a & 15u) | (h & 3u) << 4);
      codes[32] = static_cast<std::uint8_t>((b & 15u) | (h >> 2 & 3u) << 4);
      codes[64] = static_cast<std::uint8_t>(a >> 4 | (h >> 4 & 3u) << 4);
      codes[96] = static_cast<std::uint8_t>(b >> 4 | (h >> 6 & 3u) << 4);
    }
  }
  std::memcpy(block.scale_steps, bytes + 192, 16);
  block.scale = load16(bytes + 208);
}

template <WeightFormat kFormat>
void decode_block(const GgmlBlock& block, float* out) {
  constexpr CodedFormat kCoded = coded_format(kFormat);
  const float d = from_float16(block.scale), m = from_float16(block.min);
  for (int g = 0; g < kCoded.block_groups; ++g) {
    float scale = d, min = m;
    if constexpr (kCoded.has_steps) {
      const std::uint8_t step = block.scale_steps[g];
      scale *= static_cast<float>(kCoded.signed_steps ? static_cast<std::int8_t>(step) : int{step});
      if constexpr (kCoded.has_min) min *= static_cast<float>(block.min_steps[g]);
    }
    for (int i = g * kCoded.group; i < (g + 1) * kCoded.group; ++i) {
      const int q = kCoded.bits == 8 ? static_cast<std::int8_t>(block.codes[i]) : block.codes[i];
      const float value = scale * static_cast<float>(q - kCoded.zero);
      out[i] = kCoded.has_min ? value + min : value;
    }
  }
}

}  // namespace

void unpack(WeightFormat format, const std::byte* bytes, GgmlBlock& block) {
  constexpr std::uint16_t kSign = 0x8000;
  if (format == WeightFormat::kQ6_K) return unpack_q6_k(bytes, block);
  block.scale = load16(bytes);
  block.min = coded_format(format).has_min ? load16(bytes + 2) : std::uint16_t{0};
  switch (format) {
    case WeightFormat::kQ4_0: return unpack_nibbles(bytes + 2, block.codes);
    case WeightFormat::kQ4_1: return unpack_nibbles(bytes + 4, block.codes);
    case WeightFormat::kQ5_0: unpack_nibbles(bytes + 6, block.codes); return add_fifth_bits(bytes + 2, block.codes);
    case WeightFormat::kQ5_1: unpack_nibbles(bytes + 8, block.codes); return add_fifth_bits(bytes + 4, block.codes);
    case WeightFormat::kQ4_K:
      block.min ^= kSign;
      unpack_steps(bytes + 4, block);
      return unpack_group_pairs(bytes + 16, block.codes);
    case WeightFormat::kQ5_K:
      block.min ^= kSign;
      unpack_steps(bytes + 4, block);
      unpack_group_pairs(bytes + 48, block.codes);
      for (int e = 0; e < 256; ++e) {  // bit g of byte i belongs to element i of group g
        block.codes[e] =
            static_cast<std::uint8_t>(block.codes[e] | (byte_at(bytes + 16, e % 32) >> (e / 32) & 1u) << 4);
      }
      return;
    default: std::memcpy(block.codes, bytes + 2, 32); return;  // Q8_0
  }
}

void decode(WeightFormat format, const GgmlBlock& block, float* out) {
  with_format(format, [&]<WeightFormat kFormat>() { decode_block<kFormat>(block, out); });
}

void decode(WeightFormat format, const std::byte* row, std::int64_t n, float* out) {
  with_format(format, [&]<WeightFormat kFormat>() {
    constexpr CodedFormat kCoded = coded_format(kFormat);
    GgmlBlock block;
    for (std::int64_t i = 0; i < n; i += kCoded.block_elements(), row += kCoded.block_bytes) {
      unpack(kFormat, row, block);
      decode_block<kFormat>(block, out + i);
    }
  });
}

void encode_q8_0(const float* x, std::byte* bytes) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const std::uint16_t scale = to_float16(largest / 127.0f);
  std::memcpy(bytes, &scale, sizeof scale);
  const float d = from_float16(scale);
  for (int i = 0; i < 32; ++i) {
    const float q = d == 0.0f ? 0.0f : std::clamp(std::nearbyint(x[i] / d), -127.0f, 127.0f);
    bytes[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(q));
  }
}

}  // namespace mneme
