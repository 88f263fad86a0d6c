#pragma once

#include "mneme/kernels/codes.h"

/// The scales of an encoded tile as float32, laid out so that those of a panel's elements are found by adding strides.
namespace mneme::kernels {

/// Scale and offset of what inner element i of panel p holds, (code - zero) * scale + offset, are at
///
///   one for all lanes    p / panels_that_share * stretch + i * step
///   one for each lane    i / inner_that_share * stretch + 16 p, and the fifteen after it
template <class L>
class TileScales {
 public:
  const float *scales = nullptr, *offsets = nullptr;
  bool per_lane = false;
  std::int64_t stretch = 0;
  std::int64_t panels_that_share = 1, step = 0;           ///< one for all lanes
  std::int64_t inner_that_share = std::int64_t{1} << 32;  ///< one for each lane

  /// scratch [4 * 64 * dim rounded up to 16]: the slots of a tile, converted, and where need be spread.
  TileScales(const TileCodes& codes, TileSide side, std::int64_t dim, float* scratch)
      : codes_(codes),
        side_(side),
        dim_(dim),
        part_(kBlockTokens * round_up(dim, kPanel)),
        n_slots_(codes.n_scales(side, dim)),
        code_bytes_(codes.code_bytes(side, dim)),
        scale_bytes_(codes.scale_bytes(side, dim)),
        slots_{scratch, scratch + part_},
        spread_{scratch + 2 * part_, scratch + 3 * part_} {
    lay_out();
  }

  /// Those of a tile, until the next is read. Codes count from `zero`.
  void read(const std::byte* tile, float zero) {
    convert(tile + code_bytes_, zero, slots_);
    if (run_) spread_row_major();
    if (by_element_) spread_elements();
  }
  /// Those of a tile that is multiplied (TileCodes::is_multiplied), `place` < 8 strides further: `place_stride` floats
  /// each.
  void read(const std::byte* tile, float zero, int place) {
    convert(tile + code_bytes_, zero,
            {slots_.scales + place * place_stride(), slots_.offsets + place * place_stride()});
  }
  std::int64_t place_stride() const { return round_up(n_slots_, kPanel); }

 private:
  struct Pair {
    float *scales, *offsets;
  };

  void lay_out() {
    const std::int64_t group = codes_.group;
    switch (codes_.stored_grouping(dim_)) {
      case Grouping::kTile: return one_for_all_lanes(slots_, 1, 0, 0);
      case Grouping::kTokens:
        if (side_ == TileSide::kValues) return one_for_each_lane(slots_, group, round_up(dim_, kPanel));
        if (group % kPanel == 0) return one_for_all_lanes(slots_, group / kPanel, dim_, 1);
        break;
      case Grouping::kChannels:
        if (takes_groups_of(group)) return by_channels(slots_, group);
        break;
      case Grouping::kRowMajor:
        if (const std::int64_t run = common_divisor(dim_, group); takes_groups_of(run)) {
          run_ = run;
          return by_channels(spread_, run);
        }
        break;
      case Grouping::kStridedTokens: break;
    }
    by_element_ = true;
    one_for_each_lane(spread_, 1, element_width());
  }

  void one_for_all_lanes(Pair from, std::int64_t panels, std::int64_t width, std::int64_t inner_step) {
    scales = from.scales, offsets = from.offsets;
    panels_that_share = panels, stretch = width, step = inner_step;
  }
  void one_for_each_lane(Pair from, std::int64_t inner, std::int64_t width) {
    scales = from.scales, offsets = from.offsets;
    per_lane = true;
    inner_that_share = inner, stretch = width;
  }
  /// Slots [dim / n][64 tokens].
  bool takes_groups_of(std::int64_t n) const { return side_ == TileSide::kKeys || n % kPanel == 0 || n >= dim_; }
  void by_channels(Pair from, std::int64_t n) {
    if (side_ == TileSide::kKeys) return one_for_each_lane(from, n, kBlockTokens);
    one_for_all_lanes(from, n < dim_ ? n / kPanel : TileCodes::n_panels(side_, dim_), kBlockTokens, 1);
  }

  /// Float16 to float32. An e4m3 code comes divided by 256 and has no offset; those of int8 count from 128.
  void convert(const std::byte* stored, float zero, Pair to) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(stored);
    const std::uint16_t* from_offsets = from + scale_bytes_ / 2;
    const std::int64_t n = n_slots_;
    if (codes_.has_offset) {
      for (std::int64_t i = 0; i < n; i += 16) {
        const L scale = L::load_float16(from + i);
        scale.store(to.scales + i);
        L::fma(scale, L::set1(zero), L::load_float16(from_offsets + i)).store(to.offsets + i);
      }
      return;
    }
    const bool is_float8 = codes_.kind == CodeKind::kFloat8;
    const L factor = L::set1(is_float8 ? 256.0f : 1.0f), middle = L::set1(is_float8 ? 0.0f : -128.0f);
    for (std::int64_t i = 0; i < n; i += 16) {
      const L scale = L::load_float16(from + i) * factor;
      scale.store(to.scales + i);
      L::fma(scale, L::set1(zero), scale * middle).store(to.offsets + i);
    }
  }

  /// Row-major groups, as groups of run_ channels, which divides both the group and a token.
  void spread_row_major() {
    std::int64_t slot = 0, used = 0;
    for (std::int64_t token = 0; token < kBlockTokens; ++token) {
      for (std::int64_t i = 0; i < dim_ / run_; ++i) {
        spread_.scales[i * kBlockTokens + token] = slots_.scales[slot];
        spread_.offsets[i * kBlockTokens + token] = slots_.offsets[slot];
        used += run_;
        if (used == codes_.group) ++slot, used = 0;
      }
    }
  }
  /// Whatever the grouping: one for each element, [inner][lanes].
  void spread_elements() {
    const bool keys = side_ == TileSide::kKeys;
    const std::int64_t width = element_width();
    for (std::int64_t token = 0; token < kBlockTokens; ++token) {
      for (std::int64_t channel = 0; channel < dim_; ++channel) {
        const std::int64_t to = keys ? channel * width + token : token * width + channel;
        const std::int64_t from = codes_.scale_slot(side_, dim_, token, channel);
        spread_.scales[to] = slots_.scales[from];
        spread_.offsets[to] = slots_.offsets[from];
      }
    }
  }
  std::int64_t element_width() const { return side_ == TileSide::kKeys ? kBlockTokens : round_up(dim_, kPanel); }

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
  const std::int64_t dim_, part_, n_slots_, code_bytes_, scale_bytes_;
  const Pair slots_, spread_;
  std::int64_t run_ = 0;     ///< not 0: row-major groups are spread in runs of so many
  bool by_element_ = false;  ///< every element gets a scale of its own
};

}  // namespace mneme::kernels
