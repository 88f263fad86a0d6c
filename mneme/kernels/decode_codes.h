#pragma once

#include "mneme/kernels/block_store.h"
#include "mneme/kernels/code_kernels.h"
#include "mneme/kernels/code_scales.h"
#include "mneme/kernels/unpack_codes.h"

/// From the codes of one head (codes.h) to its raw tiles (kernels.h), eight quads at a time: codes become floats,
/// floats numbers, and pairs of inner neighbours, which are neighbours in the panels of bfloat16 too, are rounded and
/// stored.
namespace mneme::kernels {

/// Decodes the tiles of one raw format.
template <class L, DType format>
class TileDecoder {
  using Element = typename Elements<L, format>::Type;
  static constexpr bool kPairs = format == DType::kBFloat16;

 public:
  static void decode(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile, std::byte* panels,
                     float* scratch) {
    TileScales<L> scales(codes, side, dim, scratch);
    scales.read(tile, 0.0f);
    const std::int64_t quads = TileCodes::panel_quads(side, dim), n_quads = TileCodes::n_quads(side, dim);
    constexpr std::int64_t kAtOnce = 8;
    alignas(64) float unpacked[kAtOnce * 4 * kPanel];
    const Panels out{.first = reinterpret_cast<Element*>(panels),
                     .inner = TileCodes::inner(side, dim),
                     .stored = padded_inner(format, TileCodes::inner(side, dim)),
                     .n_lanes = side == TileSide::kKeys ? kBlockTokens : dim};
    std::int64_t panel = 0, quad = 0;  // of the panel
    for (std::int64_t q = 0; q < n_quads; q += kAtOnce) {
      const std::int64_t n = n_quads - q < kAtOnce ? n_quads - q : kAtOnce;
      unpack_quads<L>(codes, n_quads, tile, q, static_cast<int>(n), unpacked);
      for (std::int64_t done = 0; done < n;) {  // panels may end in between
        const std::int64_t m = quads - quad < n - done ? quads - quad : n - done;
        const float* from = unpacked + done * 4 * kPanel;
        if (scales.per_lane) {
          place<true>(from, scales, out, panel, quad * 4, m * 4);
        } else {
          place<false>(from, scales, out, panel, quad * 4, m * 4);
        }
        done += m, quad += m;
        if (quad == quads) ++panel, quad = 0;
      }
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
  struct Panels {
    Element* first;
    std::int64_t inner, stored;  ///< inner elements, and how many a panel has room for
    std::int64_t n_lanes;        ///< over all panels
  };

  /// Inner elements [begin, begin + n) of a panel, and after its last the padding; n is even.
  template <bool kPerLane>
  [[gnu::noinline]] static void place(const float* codes, const TileScales<L>& scales, const Panels& out,
                                      std::int64_t panel, std::int64_t begin, std::int64_t n) {
    const auto lanes = [](const float* x) { return kPerLane ? L::load(x) : L::set1(*x); };
    const std::int64_t at = kPerLane ? panel * kPanel : panel / scales.panels_that_share * scales.stretch;
    const auto n_lanes = static_cast<int>(out.n_lanes - panel * kPanel);
    const auto number = [&](std::int64_t i) {
      if (i >= out.inner) return L::zero();
      const std::int64_t slot = at + (kPerLane ? i / scales.inner_that_share * scales.stretch : i * scales.step);
      const L x =
          L::fma(L::load(codes + (i - begin) * kPanel), lanes(scales.scales + slot), lanes(scales.offsets + slot));
      return n_lanes < kPanel ? L::keep(x, 0, n_lanes, 0.0f) : x;
    };
    Element* to = out.first + (panel * out.stored + begin) * kPanel;
    for (std::int64_t i = begin; i < begin + n; i += 2, to += 2 * kPanel) {
      if (kPairs || i + 1 < out.inner) {
        store(number(i), number(i + 1), to);
      } else if (i < out.inner) {
        Elements<L, format>::store(within_range(number(i)), to);
      }
    }
    if (begin + n >= out.inner) {
      for (std::int64_t i = begin + n; i < out.stored; ++i, to += kPanel)
        __builtin_memset(to, 0, kPanel * sizeof(Element));
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
  Decoder::decode(codes.keys, TileSide::kKeys, codes.raw.key_dim, tiles, raw, scratch);
  Decoder::decode(codes.values, TileSide::kValues, codes.raw.value_dim, tiles + codes.key_bytes(),
                  raw + codes.raw.key_tile_bytes(), scratch);
  if (sinks) Decoder::place_sinks(codes, sinks, raw, scratch);
}

}  // namespace mneme::kernels
