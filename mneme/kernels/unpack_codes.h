#pragma once

#include "mneme/kernels/codes.h"

/// The codes of a tile (codes.h) as floats, run after run.
namespace mneme::kernels {

/// Reads runs in order, from the first of a unit on. `begin_unit` comes before the eight runs of each unit.
template <class L, int kBits>
class CodeReader {
  static constexpr std::int64_t kUnitsOfWord = 4 / kBits;

 public:
  CodeReader(const std::byte* plane, std::int64_t first) : plane_(plane), word_(word_of(first)) {
    for (std::int64_t i = 0; i < first % kUnitsOfWord; ++i) word_ = word_ >> (8 * kBits % 32);
  }
  [[gnu::always_inline]] void begin_unit(std::int64_t unit) {
    if (unit % kUnitsOfWord == 0) word_ = word_of(unit);
  }
  [[gnu::always_inline]] typename L::Words next() {
    const typename L::Words code = word_ & ((1u << kBits) - 1);
    word_ = word_ >> kBits;
    return code;
  }

 private:
  typename L::Words word_of(std::int64_t unit) const { return L::Words::load(plane_ + unit / kUnitsOfWord * 64); }

  const std::byte* plane_;
  typename L::Words word_;
};

template <class L, int kBits>
void unpack_plane(const std::byte* plane, std::int64_t first, std::int64_t n, float* out) {
  CodeReader<L, kBits> reader(plane, first);
  for (std::int64_t u = first; u < first + n; ++u) {
    reader.begin_unit(u);
    for (int run = 0; run < 8; ++run, out += kPanel) reader.next().to_floats().store(out);
  }
}

template <class L>
void unpack_two_planes(const std::byte* low, const std::byte* high, std::int64_t first, std::int64_t n, float* out) {
  CodeReader<L, 2> lower(low, first);
  CodeReader<L, 1> highest(high, first);
  for (std::int64_t u = first; u < first + n; ++u) {
    lower.begin_unit(u);
    highest.begin_unit(u);
    for (int run = 0; run < 8; ++run, out += kPanel) (lower.next() | highest.next() << 2).to_floats().store(out);
  }
}

/// Units [first, first + n) of a tile of n_units: out [n][8 runs][16]. An e4m3 number comes divided by 256.
template <class L>
void unpack_units(const TileCodes& codes, std::int64_t n_units, const std::byte* tile, std::int64_t first,
                  std::int64_t n, float* out) {
  switch (codes.bits) {
    case 1: return unpack_plane<L, 1>(tile, first, n, out);
    case 2: return unpack_plane<L, 2>(tile, first, n, out);
    case 3: return unpack_two_planes<L>(tile, tile + TileCodes::plane_bytes(2, n_units), first, n, out);
    case 4: return unpack_plane<L, 4>(tile, first, n, out);
    default: break;
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tile) + first * 8 * kPanel;
  if (codes.kind == CodeKind::kFloat8) {
    for (std::int64_t i = 0; i < n * 8 * kPanel; i += kPanel) L::load_float8(bytes + i).store(out + i);
  } else {
    for (std::int64_t i = 0; i < n * 8 * kPanel; i += kPanel) L::load_bytes(bytes + i).store(out + i);
  }
}

}  // namespace mneme::kernels
