#pragma once

#include <cstdint>

#include "mneme/kernels/kernels.h"

/// How a full block is stored in fewer bits. Each head has a key tile and a value tile of [64, D] numbers; a tile is
/// codes of a few bits, and scales (offsets too, for some) that a group of codes shares, as float16.
///
/// Codes lie in the order of the raw panels (kernels.h). A **run** is sixteen codes that decode into sixteen neighbours
/// of a panel: 16 tokens of one channel in keys, 16 channels of one token in values. A **unit** is the eight runs
///
///   keys    [panel of 16 tokens: 4][channel 2u, channel 2u + 1]           units u = 0 .. ceil(D / 2) - 1
///   values  [token 8u .. 8u + 7]            of one panel of 16 channels   units u = 0 .. 7, panel after panel
///
/// Codes of 8 bits are the bytes of one run after another. Codes of 1, 2 and 4 bits are planes of words: sixteen 32-bit
/// words, one for each lane, hold the codes of 4, 2 or 1 units, the first run in the lowest bits. Codes of 3 bits are a
/// plane of their two lower bits and, after it, one of their highest.
namespace mneme::kernels {

/// What a code stands for.
enum class CodeKind : std::uint8_t {
  kAffine,  ///< fma(code, scale, offset); without offsets, (code - 128) * scale
  kFloat8,  ///< e4m3 (Micikevicius et al. 2022, arXiv:2209.05433) times the scale
};

/// Which codes share a scale.
enum class Grouping : std::uint8_t {
  kRowMajor,       ///< `group` neighbours of the row-major [64, D] tile: they may span tokens
  kTokens,         ///< `group` neighbouring tokens of one channel
  kStridedTokens,  ///< `group` tokens of one channel, 64 / group apart
  kChannels,       ///< `group` channels of one token; the last group of a token may be shorter
  kTile,           ///< all
};

enum class TileSide : std::uint8_t { kKeys, kValues };

/// How one tile of one head is encoded. Sizes are for a tile of `dim` channels.
struct TileCodes {
  CodeKind kind = CodeKind::kAffine;
  int bits = 8;  ///< 1, 2, 3, 4 or 8
  bool has_offset = false;
  Grouping grouping = Grouping::kChannels;
  std::int64_t group = 1;

  /// The grouping as it is stored: a row-major group that divides a token is a group of channels, a stride of one is
  /// none.
  [[gnu::always_inline]] constexpr Grouping stored_grouping(std::int64_t dim) const {
    if (grouping == Grouping::kRowMajor && dim % group == 0) return Grouping::kChannels;
    if (grouping == Grouping::kStridedTokens && group == kBlockTokens) return Grouping::kTokens;
    return grouping;
  }

  [[gnu::always_inline]] static constexpr std::int64_t n_units(TileSide side, std::int64_t dim) {
    return side == TileSide::kKeys ? (dim + 1) / 2 : round_up(dim, kPanel) / kPanel * 8;
  }
  /// Bytes of a plane of 1, 2 or 4 bits.
  [[gnu::always_inline]] static constexpr std::int64_t plane_bytes(int plane_bits, std::int64_t units) {
    const std::int64_t units_of_a_word = 4 / plane_bits;
    return (units + units_of_a_word - 1) / units_of_a_word * 64;
  }
  [[gnu::always_inline]] constexpr std::int64_t code_bytes(TileSide side, std::int64_t dim) const {
    const std::int64_t units = n_units(side, dim);
    if (bits == 8) return units * 8 * kPanel;
    if (bits == 3) return plane_bytes(2, units) + plane_bytes(1, units);
    return plane_bytes(bits, units);
  }

  /// Slots of a tile's scales. Groups lie as decoding wants them:
  ///   kRowMajor [64 dim / group] · kTile [1] · kChannels [groups of a token][64 tokens]
  ///   kTokens: keys [dim / 2][64 / group][2 channels] · values [64 / group][channels, rounded up to 16]
  ///   kStridedTokens [64 / group][channels, rounded up to 16]
  [[gnu::always_inline]] constexpr std::int64_t n_scales(TileSide side, std::int64_t dim) const {
    switch (stored_grouping(dim)) {
      case Grouping::kRowMajor: return kBlockTokens * dim / group;
      case Grouping::kTokens: return kBlockTokens / group * round_up(dim, side == TileSide::kKeys ? 2 : kPanel);
      case Grouping::kStridedTokens: return kBlockTokens / group * round_up(dim, kPanel);
      case Grouping::kChannels: return (dim + group - 1) / group * kBlockTokens;
      case Grouping::kTile: return 1;
    }
    return 0;
  }
  /// Bytes of a tile's scales; its offsets take as many.
  [[gnu::always_inline]] constexpr std::int64_t scale_bytes(TileSide side, std::int64_t dim) const {
    return round_up(n_scales(side, dim) * 2, 64);
  }

  /// The slot of the scale that element (token, channel) shares.
  [[gnu::always_inline]] constexpr std::int64_t scale_slot(TileSide side, std::int64_t dim, std::int64_t token,
                                                           std::int64_t channel) const {
    const std::int64_t groups = kBlockTokens / group;
    switch (stored_grouping(dim)) {
      case Grouping::kRowMajor: return (token * dim + channel) / group;
      case Grouping::kTokens:
        if (side == TileSide::kValues) return token / group * round_up(dim, kPanel) + channel;
        return (channel / 2 * groups + token / group) * 2 + channel % 2;
      case Grouping::kStridedTokens: return token % groups * round_up(dim, kPanel) + channel;
      case Grouping::kChannels: return channel / group * kBlockTokens + token;
      case Grouping::kTile: return 0;
    }
    return 0;
  }

  /// Codes, scales, offsets, one after the other.
  [[gnu::always_inline]] constexpr std::int64_t tile_bytes(TileSide side, std::int64_t dim) const {
    return code_bytes(side, dim) + scale_bytes(side, dim) * (has_offset ? 2 : 1);
  }

  friend constexpr bool operator==(const TileCodes&, const TileCodes&) = default;
};

/// How a whole block is encoded: for each head its key tile and its value tile. Block 0 of a sequence carries besides
/// them the first `sink_length` tokens of each head as they were: keys [sinks][key_dim], then values
/// [sinks][value_dim]. Each part begins at a multiple of 64 bytes.
struct BlockCodes {
  TileCodes keys = {}, values = {};
  BlockLayout raw = {};          ///< of the blocks that it encodes and decodes into; `raw.format` is that of the sinks
  std::int64_t sink_length = 0;  ///< at most 64

  [[gnu::always_inline]] constexpr std::int64_t key_bytes() const {
    return keys.tile_bytes(TileSide::kKeys, raw.key_dim);
  }
  [[gnu::always_inline]] constexpr std::int64_t value_bytes() const {
    return values.tile_bytes(TileSide::kValues, raw.value_dim);
  }
  [[gnu::always_inline]] constexpr std::int64_t head_bytes() const { return key_bytes() + value_bytes(); }
  /// Bytes of one head's raw tokens in block 0.
  [[gnu::always_inline]] constexpr std::int64_t sink_bytes() const {
    return round_up(sink_length * (raw.key_dim + raw.value_dim) * static_cast<std::int64_t>(size_of(raw.format)), 64);
  }
  [[gnu::always_inline]] constexpr std::int64_t block_bytes(bool first) const {
    return raw.n_heads * (head_bytes() + (first ? sink_bytes() : 0));
  }
  /// Bytes from a block's start to a head's tiles, and to its raw tokens where it is block 0.
  [[gnu::always_inline]] constexpr std::int64_t head_offset(std::int64_t head) const { return head * head_bytes(); }
  [[gnu::always_inline]] constexpr std::int64_t sink_offset(std::int64_t head) const {
    return raw.n_heads * head_bytes() + head * sink_bytes();
  }

  friend constexpr bool operator==(const BlockCodes&, const BlockCodes&) = default;
};

}  // namespace mneme::kernels
