#pragma once

#include <cstdint>

#include "mneme/kernels/kernels.h"

/// How a full block is stored in fewer bits. Each head has a key tile and a value tile of [64, D] numbers; a tile is
/// codes of a few bits, and scales (offsets too, for some) that a group of codes shares, as float16.
///
/// A tile is the right-hand side of a product (kernels.h): panels of sixteen lanes over an inner dimension,
///
///   keys    lanes are tokens (four panels), the inner dimension is channels
///   values  lanes are channels (the last panel filled up with zeros), the inner dimension is the 64 tokens
///
/// A **quad** is what one integer dot product reads: for each of a panel's lanes the codes of four inner neighbours, a
/// byte each, [16 lanes][4]. Quads are numbered panel after panel. Those of 8 bits lie one after another, 64 bytes
/// each; of 1, 2 and 4 bits, 8 / bits quads share 64 bytes, the first in the lowest bits of each byte. Codes of 3 bits
/// are a plane of their two lower bits and, after it, one of their highest. e4m3 numbers are no integers: their quads
/// are four runs of what decodes into sixteen neighbours, [4][16 lanes].
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

  /// Length of the inner dimension, and its quads.
  [[gnu::always_inline]] static constexpr std::int64_t inner(TileSide side, std::int64_t dim) {
    return side == TileSide::kKeys ? dim : kBlockTokens;
  }
  [[gnu::always_inline]] static constexpr std::int64_t panel_quads(TileSide side, std::int64_t dim) {
    return (inner(side, dim) + 3) / 4;
  }
  [[gnu::always_inline]] static constexpr std::int64_t n_panels(TileSide side, std::int64_t dim) {
    return (side == TileSide::kKeys ? kBlockTokens : round_up(dim, kPanel)) / kPanel;
  }
  [[gnu::always_inline]] static constexpr std::int64_t n_quads(TileSide side, std::int64_t dim) {
    return n_panels(side, dim) * panel_quads(side, dim);
  }
  /// Bytes of a plane of 1, 2, 4 or 8 bits.
  [[gnu::always_inline]] static constexpr std::int64_t plane_bytes(int plane_bits, std::int64_t quads) {
    const std::int64_t quads_that_share = 8 / plane_bits;
    return (quads + quads_that_share - 1) / quads_that_share * 64;
  }
  [[gnu::always_inline]] constexpr std::int64_t code_bytes(TileSide side, std::int64_t dim) const {
    const std::int64_t quads = n_quads(side, dim);
    return bits == 3 ? plane_bytes(2, quads) + plane_bytes(1, quads) : plane_bytes(bits, quads);
  }

  /// Slots of a tile's scales. Groups lie as products want them:
  ///   kRowMajor [64 dim / group] · kTile [1] · kChannels [groups of a token][64 tokens]
  ///   kTokens, kStridedTokens [64 / group][channels, rounded up to 16]; kTokens of keys [64 / group][channels]
  [[gnu::always_inline]] constexpr std::int64_t n_scales(TileSide side, std::int64_t dim) const {
    switch (stored_grouping(dim)) {
      case Grouping::kRowMajor: return kBlockTokens * dim / group;
      case Grouping::kTokens: return kBlockTokens / group * (side == TileSide::kKeys ? dim : round_up(dim, kPanel));
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
    switch (stored_grouping(dim)) {
      case Grouping::kRowMajor: return (token * dim + channel) / group;
      case Grouping::kTokens: return token / group * (side == TileSide::kKeys ? dim : round_up(dim, kPanel)) + channel;
      case Grouping::kStridedTokens: return token % (kBlockTokens / group) * round_up(dim, kPanel) + channel;
      case Grouping::kChannels: return channel / group * kBlockTokens + token;
      case Grouping::kTile: return 0;
    }
    return 0;
  }

  /// Whether attention multiplies the codes themselves (code_product.h): integers whose groups end where panels and the
  /// bytes of a quad do, and e4m3 numbers of one scale. Other tiles are decoded first.
  [[gnu::always_inline]] constexpr bool is_multiplied(TileSide side, std::int64_t dim) const {
    const std::int64_t step = bits == 1 || bits == 3 ? 32 : kPanel, length = inner(side, dim);
    if (dim % kPanel || length % step || length > 1024) return false;
    if (kind == CodeKind::kFloat8) return grouping == Grouping::kTile;
    const bool along_inner = (stored_grouping(dim) == Grouping::kTokens) == (side == TileSide::kValues);
    switch (stored_grouping(dim)) {
      case Grouping::kTokens: return group % (along_inner ? step : kPanel) == 0;
      case Grouping::kChannels: return group >= dim || group % (along_inner ? step : kPanel) == 0;
      default: return false;
    }
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
