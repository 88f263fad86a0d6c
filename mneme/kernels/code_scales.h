#pragma once

#include "mneme/kernels/codes.h"

/// The scales of an encoded tile as float32, laid out so that decoding finds those of a run by adding strides.
namespace mneme::kernels {

/// Run 2 i + odd of unit u has its scale at, in floats, with stretch s = u / units:
///
///   s * stretch + (u - s * units) * unit + i / pairs_that_share * pair + odd
struct RunStrides {
  std::int64_t units = std::int64_t{1} << 32, stretch = 0;
  std::int64_t unit = 0, pair = 0, pairs_that_share = 1, odd = 0;
};

struct RunScales {
  const float *scales, *offsets;
  bool per_lane;  ///< sixteen floats, one for each lane, or one for all
  RunStrides strides;
};

/// Builds them for one tile: for keys at once, for values panel by panel.
template <class L>
class TileScales {
 public:
  /// scratch [4 * 64 * dim rounded up to 16]: the slots of a tile, converted, and where need be spread.
  TileScales(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile, float* scratch)
      : codes_(codes),
        side_(side),
        dim_(dim),
        grouping_(codes.stored_grouping(dim)),
        part_(kBlockTokens * round_up(dim, kPanel)),
        slots_{scratch, scratch + part_},
        spread_{scratch + 2 * part_, scratch + 3 * part_} {
    convert(tile + codes.code_bytes(side, dim));
  }

  RunScales keys() {
    const std::int64_t group = codes_.group, groups = kBlockTokens / group;
    switch (grouping_) {
      case Grouping::kTile: return constant();
      case Grouping::kTokens:
        if (group % kPanel) break;
        return shared(slots_, 0, {.unit = groups * 2, .pair = 2, .pairs_that_share = group / kPanel, .odd = 1});
      case Grouping::kChannels:
        if (group % 2 && group < dim_) break;
        return of_channels(slots_, group);
      case Grouping::kRowMajor: {
        const std::int64_t block = common_divisor(dim_, group);
        if (block % 2 && block < dim_) break;
        spread_row_major_channels(block);
        return of_channels(spread_, block);
      }
      case Grouping::kStridedTokens: break;
    }
    spread_elements(1, kBlockTokens);
    return each_lane(spread_, 0, {.unit = 2 * kBlockTokens, .pair = kPanel, .odd = kBlockTokens});
  }

  /// Of the panel that begins at `channel`. Panels are asked for from left to right.
  RunScales values(std::int64_t channel) {
    const std::int64_t group = codes_.group, row = round_up(dim_, kPanel);
    switch (grouping_) {
      case Grouping::kTile: return constant();
      case Grouping::kTokens:
        if (group % 8) break;
        return each_lane(slots_, channel, {.units = group / 8, .stretch = row});
      case Grouping::kChannels:
        if (group % kPanel && group < dim_) break;
        return shared(slots_, channel / group * kBlockTokens, {.unit = 8, .pair = 2, .odd = 1});
      case Grouping::kRowMajor: {
        const std::int64_t block = common_divisor(dim_, group);
        if (block % kPanel && block < dim_) break;
        if (channel == 0) spread_row_major_channels(block);
        return shared(spread_, channel / block * kBlockTokens, {.unit = 8, .pair = 2, .odd = 1});
      }
      case Grouping::kStridedTokens: break;
    }
    if (channel == 0) spread_elements(row, 1);
    return each_lane(spread_, channel, {.unit = 8 * row, .pair = 2 * row, .odd = row});
  }

 private:
  struct Pair {
    float *scales, *offsets;
  };

  /// Float16 to float32. An e4m3 code comes divided by 256 and has no offset; those of int8 count from 128.
  void convert(const std::byte* stored) {
    const auto* scales = reinterpret_cast<const std::uint16_t*>(stored);
    const std::uint16_t* offsets = scales + codes_.scale_bytes(side_, dim_) / 2;
    const std::int64_t n = codes_.n_scales(side_, dim_);
    const bool is_float8 = codes_.kind == CodeKind::kFloat8;
    const L factor = L::set1(is_float8 ? 256.0f : 1.0f), middle = L::set1(is_float8 ? 0.0f : -128.0f);
    for (std::int64_t i = 0; i < n; i += 16) {
      const L scale = L::load_float16(scales + i);
      (scale * factor).store(slots_.scales + i);
      (codes_.has_offset ? L::load_float16(offsets + i) : scale * middle).store(slots_.offsets + i);
    }
  }

  /// Row-major groups, as groups of `block` channels: block divides both the group and a token.
  void spread_row_major_channels(std::int64_t block) {
    std::int64_t slot = 0, used = 0;
    for (std::int64_t token = 0; token < kBlockTokens; ++token) {
      for (std::int64_t i = 0; i < dim_ / block; ++i) {
        spread_.scales[i * kBlockTokens + token] = slots_.scales[slot];
        spread_.offsets[i * kBlockTokens + token] = slots_.offsets[slot];
        used += block;
        if (used == codes_.group) ++slot, used = 0;
      }
    }
  }
  /// Whatever the grouping: one for each element.
  void spread_elements(std::int64_t token_stride, std::int64_t channel_stride) {
    for (std::int64_t token = 0; token < kBlockTokens; ++token) {
      for (std::int64_t channel = 0; channel < dim_; ++channel) {
        const std::int64_t to = token * token_stride + channel * channel_stride;
        const std::int64_t from = codes_.scale_slot(side_, dim_, token, channel);
        spread_.scales[to] = slots_.scales[from];
        spread_.offsets[to] = slots_.offsets[from];
      }
    }
  }

  RunScales constant() const { return shared(slots_, 0, {}); }
  /// Keys whose channels [0, n), [n, 2 n) .. share a scale for each token: slots [channels / n][64].
  RunScales of_channels(Pair from, std::int64_t n) const {
    const std::int64_t units = n < dim_ ? n / 2 : TileCodes::n_units(side_, dim_);
    return each_lane(from, 0, {.units = units, .stretch = kBlockTokens, .pair = kPanel});
  }
  static RunScales shared(Pair from, std::int64_t first, const RunStrides& strides) {
    return {from.scales + first, from.offsets + first, false, strides};
  }
  static RunScales each_lane(Pair from, std::int64_t first, const RunStrides& strides) {
    return {from.scales + first, from.offsets + first, true, strides};
  }

  static std::int64_t common_divisor(std::int64_t a, std::int64_t b) {
    while (b) {
      const std::int64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }

  const TileCodes& codes_;
  const TileSide side_;
  const std::int64_t dim_;
  const Grouping grouping_;
  const std::int64_t part_;
  const Pair slots_, spread_;
};

}  // namespace mneme::kernels
