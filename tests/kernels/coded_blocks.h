#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <ostream>
#include <random>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/kernels/code_kernels.h"

namespace mneme::kernels {

/// Memory that begins at a multiple of 64 bytes, all of it one byte that nobody may rely on.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::int64_t n, std::byte fill = std::byte{0xa5})
      : storage_(static_cast<std::size_t>(n + 64), fill), n_(n) {}

  std::byte* data() { return const_cast<std::byte*>(std::as_const(*this).data()); }
  const std::byte* data() const {
    return reinterpret_cast<const std::byte*>((reinterpret_cast<std::uintptr_t>(storage_.data()) + 63) / 64 * 64);
  }
  std::int64_t size() const { return n_; }

  friend bool operator==(const AlignedBytes& a, const AlignedBytes& b) {
    return a.n_ == b.n_ && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.n_)) == 0;
  }

 private:
  std::vector<std::byte> storage_;
  std::int64_t n_;
};

inline std::ostream& operator<<(std::ostream& out, const TileCodes& codes) {
  return out << (codes.kind == CodeKind::kFloat8 ? "e4m3 " : "affine ") << codes.bits << " bits grouping "
             << static_cast<int>(codes.grouping) << " of " << codes.group;
}

/// Every kind of tile that a codec makes, and groups that fit badly.
inline std::vector<TileCodes> tiles_to_test(std::int64_t dim) {
  std::vector<TileCodes> tiles = {{.kind = CodeKind::kFloat8, .grouping = Grouping::kTile},
                                  {.bits = 8, .grouping = Grouping::kChannels, .group = dim}};
  for (const int bits : {1, 2, 3, 4, 8}) {
    const auto add = [&](Grouping grouping, std::int64_t group) {
      const TileCodes tile{.bits = bits, .has_offset = true, .grouping = grouping, .group = group};
      if (grouping != Grouping::kRowMajor || kBlockTokens * dim % group == 0) tiles.push_back(tile);
    };
    for (const std::int64_t group : {64, 32, 16, 8, 2}) {
      add(Grouping::kTokens, group);
      add(Grouping::kStridedTokens, group);
    }
    for (const std::int64_t group : {64, 32, 16, 24, 7, 1}) add(Grouping::kChannels, group);
    for (const std::int64_t group : {64, 32, 16, 8, 40, 192, 1024}) add(Grouping::kRowMajor, group);
  }
  return tiles;
}

/// The code of an element, after the description in codes.h.
inline int code_at(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile, std::int64_t token,
                   std::int64_t channel) {
  const bool keys = side == TileSide::kKeys;
  const std::int64_t lane = keys ? token : channel, inner = keys ? channel : token;
  const std::int64_t quads = ((keys ? dim : 64) + 3) / 4, n_quads = quads * (keys ? 4 : (dim + 15) / 16);
  const std::int64_t quad = lane / 16 * quads + inner / 4, byte = lane % 16 * 4 + inner % 4;
  if (codes.kind == CodeKind::kFloat8) return static_cast<int>(tile[quad * 64 + inner % 4 * 16 + lane % 16]);
  const auto plane = [&](const std::byte* from, int bits) {
    return static_cast<int>(from[quad * bits / 8 * 64 + byte]) >> quad * bits % 8 & ((1 << bits) - 1);
  };
  if (codes.bits != 3) return plane(tile, codes.bits);
  return plane(tile, 2) | plane(tile + (n_quads + 3) / 4 * 64, 1) << 2;
}

inline float float8_value(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float magnitude = exponent ? std::ldexp(1.0f + static_cast<float>(mantissa) / 8.0f, exponent - 7)
                                   : std::ldexp(static_cast<float>(mantissa), -9);
  return code & 0x80 ? -magnitude : magnitude;
}

/// What an element decodes to before it is rounded to a raw format.
inline float value_at(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile,
                      std::int64_t token, std::int64_t channel) {
  const int code = code_at(codes, side, dim, tile, token, channel);
  const std::int64_t slot = codes.scale_slot(side, dim, token, channel);
  const auto half = [&](std::int64_t offset) {
    std::uint16_t bits;
    std::memcpy(&bits, tile + codes.code_bytes(side, dim) + offset + 2 * slot, sizeof bits);
    return from_float16(bits);
  };
  const float scale = half(0);
  if (codes.kind == CodeKind::kFloat8) return std::fma(float8_value(code), scale, 0.0f);
  if (!codes.has_offset) return static_cast<float>(code - 128) * scale;
  return std::fma(static_cast<float>(code), scale, half(codes.scale_bytes(side, dim)));
}

inline float rounded_once(DType format, float x) {
  switch (format) {
    case DType::kFloat32: return x;
    case DType::kBFloat16: return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x8000u) & 0xffff0000u);
    case DType::kFloat16: return from_float16(to_float16(std::fmin(std::fmax(x, -65504.0f), 65504.0f)));
  }
  return x;
}

/// A whole encoded block of random codes, and scales and offsets of ordinary sizes.
inline AlignedBytes random_block(const BlockCodes& codes, bool first, unsigned seed) {
  std::mt19937 generator(seed);
  AlignedBytes block(codes.block_bytes(first));
  for (std::int64_t i = 0; i < block.size(); ++i) block.data()[i] = static_cast<std::byte>(generator());
  const auto fill = [&](std::byte* tile, const TileCodes& tile_codes, TileSide side, std::int64_t dim) {
    std::byte* scales = tile + tile_codes.code_bytes(side, dim);
    const float size =
        tile_codes.kind == CodeKind::kFloat8 ? 1.0f / 128 : 2.0f / static_cast<float>(1 << tile_codes.bits);
    std::uniform_real_distribution<float> scale(0.5f * size, size), offset(-1.5f, 0.5f);
    const std::int64_t n = tile_codes.scale_bytes(side, dim) / 2;
    for (std::int64_t i = 0; i < n * (tile_codes.has_offset ? 2 : 1); ++i) {
      const std::uint16_t bits = to_float16(i < n ? scale(generator) : offset(generator));
      std::memcpy(scales + 2 * i, &bits, sizeof bits);
    }
    // e4m3 codes of NaN are not written.
    for (std::byte* code = tile; tile_codes.kind == CodeKind::kFloat8 && code < scales; ++code) {
      if ((*code & std::byte{0x7f}) == std::byte{0x7f}) *code ^= std::byte{1};
    }
  };
  for (std::int64_t head = 0; head < codes.raw.n_heads; ++head) {
    std::byte* tile = block.data() + codes.head_offset(head);
    fill(tile, codes.keys, TileSide::kKeys, codes.raw.key_dim);
    fill(tile + codes.key_bytes(), codes.values, TileSide::kValues, codes.raw.value_dim);
    if (!first) continue;
    std::normal_distribution<float> normal;
    std::byte* sink = block.data() + codes.sink_offset(head);
    for (std::int64_t i = 0; i < codes.sink_length * (codes.raw.key_dim + codes.raw.value_dim); ++i) {
      const float x = normal(generator);
      const std::uint16_t bits = codes.raw.format == DType::kBFloat16 ? to_bfloat16(x) : to_float16(x);
      if (codes.raw.format == DType::kFloat32)
        std::memcpy(sink + 4 * i, &x, 4);
      else
        std::memcpy(sink + 2 * i, &bits, 2);
    }
  }
  return block;
}

inline AlignedBytes decoded(const Table& table, const BlockCodes& codes, const AlignedBytes& block, bool first) {
  AlignedBytes raw(codes.raw.block_bytes()), scratch(scale_scratch_bytes(codes));
  for (std::int64_t head = 0; head < codes.raw.n_heads; ++head) {
    table.codes->of(codes.raw.format)
        .decode_head(codes, block.data() + codes.head_offset(head),
                     first && codes.sink_length ? block.data() + codes.sink_offset(head) : nullptr,
                     raw.data() + head * codes.raw.head_bytes(), reinterpret_cast<float*>(scratch.data()));
  }
  return raw;
}

}  // namespace mneme::kernels
