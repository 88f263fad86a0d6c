#pragma once

#include "mneme/kernels/block_store.h"
#include "mneme/kernels/code_kernels.h"
#include "mneme/kernels/code_scales.h"

/// From the codes of one head (codes.h) to its raw tiles (kernels.h): unit by unit, pairs of runs that are neighbours
/// in the panels of bfloat16 too.
namespace mneme::kernels {

/// The codes of a tile as floats, run after run. `start` goes to a unit, `begin_unit` to the next of them.
template <class L, int kBits>
class CodeReader {
  static constexpr std::int64_t kUnitsOfWord = 4 / kBits;

 public:
  CodeReader(const std::byte* codes, std::int64_t /*n_units*/) : codes_(codes) {}

  void start(std::int64_t unit) {
    word_ = L::Words::load(codes_ + unit / kUnitsOfWord * 64);
    for (std::int64_t i = 0; i < unit % kUnitsOfWord; ++i) word_ = word_ >> (8 * kBits % 32);
  }
  [[gnu::always_inline]] void begin_unit(std::int64_t unit) {
    if (unit % kUnitsOfWord == 0) word_ = L::Words::load(codes_ + unit / kUnitsOfWord * 64);
  }
  [[gnu::always_inline]] typename L::Words next_words() {
    const typename L::Words code = word_ & ((1u << kBits) - 1);
    word_ = word_ >> kBits;
    return code;
  }
  [[gnu::always_inline]] L next() { return next_words().to_floats(); }

 private:
  const std::byte* codes_;
  typename L::Words word_;
};

template <class L>
class CodeReader<L, 3> {
 public:
  CodeReader(const std::byte* codes, std::int64_t n_units)
      : low_(codes, n_units), high_(codes + TileCodes::plane_bytes(2, n_units), n_units) {}

  void start(std::int64_t unit) {
    low_.start(unit);
    high_.start(unit);
  }
  [[gnu::always_inline]] void begin_unit(std::int64_t unit) {
    low_.begin_unit(unit);
    high_.begin_unit(unit);
  }
  [[gnu::always_inline]] L next() { return (low_.next_words() | high_.next_words() << 2).to_floats(); }

 private:
  CodeReader<L, 2> low_;
  CodeReader<L, 1> high_;
};

template <class L>
class CodeReader<L, 8> {
 public:
  CodeReader(const std::byte* codes, std::int64_t /*n_units*/)
      : codes_(reinterpret_cast<const std::uint8_t*>(codes)), run_(codes_) {}

  void start(std::int64_t unit) { run_ = codes_ + unit * 8 * kPanel; }
  [[gnu::always_inline]] void begin_unit(std::int64_t) {}
  [[gnu::always_inline]] L next() {
    run_ += kPanel;
    return L::load_bytes(run_ - kPanel);
  }

 protected:
  const std::uint8_t *codes_, *run_;
};

/// e4m3, divided by 256.
inline constexpr int kFloat8Bits = 0;
template <class L>
class CodeReader<L, kFloat8Bits> : public CodeReader<L, 8> {
 public:
  using CodeReader<L, 8>::CodeReader;
  [[gnu::always_inline]] L next() {
    this->run_ += kPanel;
    return L::load_float8(this->run_ - kPanel);
  }
};

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
    if (codes.kind == CodeKind::kFloat8) return decode_units<kFloat8Bits, false>(span, runs);
    switch (codes.bits) {
      case 1: return decode_bits<1>(span, runs);
      case 2: return decode_bits<2>(span, runs);
      case 3: return decode_bits<3>(span, runs);
      case 4: return decode_bits<4>(span, runs);
      default: return decode_bits<8>(span, runs);
    }
  }
  template <int kBits>
  static void decode_bits(const Span& span, const RunScales& runs) {
    return runs.per_lane ? decode_units<kBits, true>(span, runs) : decode_units<kBits, false>(span, runs);
  }

  template <int kBits, bool kPerLane>
  [[gnu::noinline]] static void decode_units(const Span& span, const RunScales& runs) {
    const RunStrides& strides = runs.strides;
    CodeReader<L, kBits> reader(span.codes, span.n_units);
    if (span.first < span.end) reader.start(span.first);
    Element* out = span.out;
    const std::int64_t first = span.first - span.origin;
    std::int64_t left = strides.units - first % strides.units;
    std::int64_t at = first / strides.units * strides.stretch + first % strides.units * strides.unit;
    std::int64_t pairs[4];
    for (std::int64_t i = 0; i < 4; ++i) pairs[i] = i / strides.pairs_that_share * strides.pair;
    for (std::int64_t u = span.first; u < span.end; ++u, out += span.unit) {
      reader.begin_unit(u);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t pair = at + pairs[i];
        const L even = value<kBits, kPerLane>(reader.next(), runs, pair);
        const L odd = value<kBits, kPerLane>(reader.next(), runs, pair + strides.odd);
        store(even, odd, out + i * span.pair);
      }
      at += strides.unit;
      if (--left == 0) {
        left = strides.units;
        at += strides.stretch - strides.units * strides.unit;
      }
    }
  }

  template <int kBits, bool kPerLane>
  [[gnu::always_inline]] static L value(L code, const RunScales& runs, std::int64_t at) {
    const auto lanes = [](const float* x) { return kPerLane ? L::load(x) : L::set1(*x); };
    if constexpr (kBits == kFloat8Bits) return code * lanes(runs.scales + at);
    return L::fma(code, lanes(runs.scales + at), lanes(runs.offsets + at));
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
