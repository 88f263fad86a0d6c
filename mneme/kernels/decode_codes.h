#pragma once

#include "mneme/kernels/block_store.h"
#include "mneme/kernels/code_kernels.h"
#include "mneme/kernels/code_scales.h"
#include "mneme/kernels/unpack_codes.h"

/// From the codes of one head (codes.h) to its raw tiles (kernels.h), a few units at a time: codes become floats,
/// floats numbers, and pairs of runs, which are neighbours in the panels of bfloat16 too, are rounded and stored.
namespace mneme::kernels {

/// Decodes the tiles of one raw format.
template <class L, DType format>
class TileDecoder {
  using Element = typename Elements<L, format>::Type;
  static constexpr bool kPairs = format == DType::kBFloat16;

 public:
  static void decode_keys(const TileCodes& codes, std::int64_t dim, const std::byte* tile, std::byte* panels,
                          float* scratch) {
    const std::int64_t panel = padded_inner(format, dim) * kPanel, n_units = TileCodes::n_units(TileSide::kKeys, dim);
    TileScales<L> scales(codes, TileSide::kKeys, dim, tile, scratch);
    const RunScales runs = scales.keys();
    auto* out = reinterpret_cast<Element*>(panels);
    const Span all{.codes = tile,
                   .n_units = n_units,
                   .first = 0,
                   .end = dim / 2,
                   .origin = 0,
                   .out = out,
                   .unit = 32,
                   .pair = panel};
    decode(codes, all, runs);
    if (dim % 2) {  // half a unit: the other half would be the first row of the next panel
      alignas(64) Element last[8 * kPanel];
      decode(codes,
             {.codes = tile,
              .n_units = n_units,
              .first = dim / 2,
              .end = n_units,
              .origin = 0,
              .out = last,
              .unit = 0,
              .pair = 2 * kPanel},
             runs);
      for (std::int64_t p = 0; p < 4; ++p) keep_even(last + p * 2 * kPanel, out + p * panel + dim / 2 * 32);
    }
    for (std::int64_t p = 0; p < 4; ++p) {
      for (std::int64_t k = round_up(dim, kPairs ? 2 : 1); k < panel / kPanel; ++k)
        __builtin_memset(out + p * panel + k * kPanel, 0, kPanel * sizeof(Element));
    }
  }

  static void decode_values(const TileCodes& codes, std::int64_t dim, const std::byte* tile, std::byte* panels,
                            float* scratch) {
    TileScales<L> scales(codes, TileSide::kValues, dim, tile, scratch);
    auto* out = reinterpret_cast<Element*>(panels);
    for (std::int64_t channel = 0; channel < dim; channel += kPanel) {
      Element* panel = out + channel * kBlockTokens;
      decode(codes,
             {.codes = tile,
              .n_units = TileCodes::n_units(TileSide::kValues, dim),
              .first = channel / 2,
              .end = channel / 2 + 8,
              .origin = channel / 2,
              .out = panel,
              .unit = 8 * kPanel,
              .pair = 2 * kPanel},
             scales.values(channel));
      if (dim - channel < kPanel) clear_lanes(panel, dim - channel);
    }
  }

  /// Tokens that were stored as they are, over what their codes said.
  static void place_sinks(const BlockCodes& codes, const std::byte* sinks, std::byte* raw, float* row) {
    const HeadTiles<L, format> tiles(codes.raw, raw);
    const auto* keys = reinterpret_cast<const Element*>(sinks);
    const Element* values = keys + codes.sink_length * codes.raw.key_dim;
    for (std::int64_t t = 0; t < codes.sink_length; ++t) {
      widen(keys + t * codes.raw.key_dim, codes.raw.key_dim, row);
      tiles.store_key(t, row);
      widen(values + t * codes.raw.value_dim, codes.raw.value_dim, row);
      tiles.store_values(t, 1, row, codes.raw.value_dim);
    }
  }

 private:
  /// Units [first, end) of a tile's n_units, whose scales count from unit `origin`; run 2 i and its neighbour of unit
  /// first + j go to out + j * unit + i * pair.
  struct Span {
    const std::byte* codes;
    std::int64_t n_units, first, end, origin;
    Element* out;
    std::int64_t unit, pair;
  };

  static void decode(const TileCodes& codes, const Span& span, const RunScales& runs) {
    constexpr std::int64_t kAtOnce = 8;
    alignas(64) float unpacked[kAtOnce * 8 * kPanel];
    for (std::int64_t u = span.first; u < span.end; u += kAtOnce) {
      const std::int64_t n = span.end - u < kAtOnce ? span.end - u : kAtOnce;
      unpack_units<L>(codes, span.n_units, span.codes, u, n, unpacked);
      Element* out = span.out + (u - span.first) * span.unit;
      if (runs.per_lane) {
        place<true>(unpacked, u - span.origin, n, runs, out, span);
      } else {
        place<false>(unpacked, u - span.origin, n, runs, out, span);
      }
    }
  }

  /// Units [first, first + n) as RunScales counts them.
  template <bool kPerLane>
  [[gnu::noinline]] static void place(const float* codes, std::int64_t first, std::int64_t n, const RunScales& runs,
                                      Element* out, const Span& span) {
    const auto lanes = [](const float* x) { return kPerLane ? L::load(x) : L::set1(*x); };
    const RunStrides& strides = runs.strides;
    std::int64_t left = strides.units - first % strides.units;
    std::int64_t at = first / strides.units * strides.stretch + first % strides.units * strides.unit;
    std::int64_t pairs[4];
    for (std::int64_t i = 0; i < 4; ++i) pairs[i] = i / strides.pairs_that_share * strides.pair;
    for (std::int64_t u = 0; u < n; ++u, out += span.unit) {
      for (std::int64_t i = 0; i < 4; ++i, codes += 2 * kPanel) {
        const std::int64_t even = at + pairs[i], odd = even + strides.odd;
        store(L::fma(L::load(codes), lanes(runs.scales + even), lanes(runs.offsets + even)),
              L::fma(L::load(codes + kPanel), lanes(runs.scales + odd), lanes(runs.offsets + odd)),
              out + i * span.pair);
      }
      at += strides.unit;
      if (--left == 0) {
        left = strides.units;
        at += strides.stretch - strides.units * strides.unit;
      }
    }
  }

  [[gnu::always_inline]] static void store(L even, L odd, Element* out) {
    if constexpr (kPairs) {
      L::store_finite_pairs(even, odd, out);
    } else {
      Elements<L, format>::store(within_range(even), out);
      Elements<L, format>::store(within_range(odd), out + kPanel);
    }
  }
  /// What float16 holds: the last code may lie above the largest number that was encoded.
  [[gnu::always_inline]] static L within_range(L x) {
    if constexpr (format != DType::kFloat16) return x;
    const L largest = L::set1(65504.0f);
    return L::max(L::min(x, largest), L::zero() - largest);
  }

  static void keep_even(const Element* unit, Element* out) {
    for (std::int64_t i = 0; i < kPanel; ++i) {
      if constexpr (kPairs) {
        out[2 * i] = unit[2 * i];
        out[2 * i + 1] = 0;
      } else {
        out[i] = unit[i];
      }
    }
  }
  static void clear_lanes(Element* panel, std::int64_t first) {
    constexpr std::int64_t kSide = kPairs ? 2 : 1;
    for (std::int64_t row = 0; row < kBlockTokens / kSide; ++row) {
      for (std::int64_t i = first * kSide; i < kPanel * kSide; ++i) panel[row * kPanel * kSide + i] = 0;
    }
  }

  static void widen(const Element* from, std::int64_t n, float* to) {
    for (std::int64_t i = 0; i < n; i += kPanel) {
      alignas(64) Element part[kPanel] = {};
      const std::int64_t m = n - i < kPanel ? n - i : kPanel;
      __builtin_memcpy(part, from + i, static_cast<std::size_t>(m) * sizeof(Element));
      Elements<L, format>::load(part).store_first(to + i, static_cast<int>(m));
    }
  }
};

template <class L, DType format>
void decode_head(const BlockCodes& codes, const std::byte* tiles, const std::byte* sinks, std::byte* raw,
                 float* scratch) noexcept {
  using Decoder = TileDecoder<L, format>;
  Decoder::decode_keys(codes.keys, codes.raw.key_dim, tiles, raw, scratch);
  Decoder::decode_values(codes.values, codes.raw.value_dim, tiles + codes.key_bytes(), raw + codes.raw.key_tile_bytes(),
                         scratch);
  if (sinks) Decoder::place_sinks(codes, sinks, raw, scratch);
}

}  // namespace mneme::kernels
