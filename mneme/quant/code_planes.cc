#include "mneme/quant/code_planes.h"

#include <algorithm>

namespace mneme::quant {
namespace {

using kernels::kBlockTokens;
using kernels::kPanel;
using kernels::TileCodes;
using kernels::TileSide;

/// Where a run's sixteen codes stand in a row-major tile, and how many of them are there.
struct Run {
  std::int64_t first, stride, n;
};

/// Calls f(index of the run, run) for all that exist, in the order of units.
template <class F>
void each_run(TileSide side, std::int64_t dim, F&& f) {
  if (side == TileSide::kKeys) {
    for (std::int64_t channel = 0; channel < dim; ++channel) {
      for (std::int64_t panel = 0; panel < kBlockTokens / kPanel; ++panel)
        f(channel / 2 * 8 + panel * 2 + channel % 2, Run{panel * kPanel * dim + channel, dim, kPanel});
    }
  } else {
    for (std::int64_t channel = 0; channel < dim; channel += kPanel) {
      for (std::int64_t token = 0; token < kBlockTokens; ++token)
        f(channel / kPanel * kBlockTokens + token, Run{token * dim + channel, 1, std::min(kPanel, dim - channel)});
    }
  }
}

/// Calls f(bytes of the plane before, its bits, the lowest of them in a code) for each plane.
template <class F>
void each_plane(const TileCodes& codes, TileSide side, std::int64_t dim, F&& f) {
  if (codes.bits != 3) return f(0, codes.bits, 0);
  f(0, 2, 0);
  f(TileCodes::plane_bytes(2, TileCodes::n_units(side, dim)), 1, 2);
}

}  // namespace

void pack_codes(const TileCodes& codes, TileSide side, std::int64_t dim, const std::uint8_t* from, std::byte* out) {
  if (codes.bits == 8) {
    each_run(side, dim, [&](std::int64_t index, const Run& run) {
      for (std::int64_t i = 0; i < run.n; ++i) out[index * kPanel + i] = std::byte{from[run.first + i * run.stride]};
    });
    return;
  }
  each_plane(codes, side, dim, [&](std::int64_t offset, int bits, int lowest) {
    auto* words = reinterpret_cast<std::uint32_t*>(out + offset);
    const std::int64_t runs_of_a_word = 32 / bits;
    const unsigned mask = (1u << bits) - 1;
    each_run(side, dim, [&](std::int64_t index, const Run& run) {
      std::uint32_t* word = words + index / runs_of_a_word * kPanel;
      const auto shift = static_cast<int>(index % runs_of_a_word) * bits;
      for (std::int64_t i = 0; i < run.n; ++i)
        word[i] |= (unsigned{from[run.first + i * run.stride]} >> lowest & mask) << shift;
    });
  });
}

}  // namespace mneme::quant
