#include "mneme/quant/code_planes.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mneme::quant {
namespace {

using kernels::CodeKind;
using kernels::kBlockTokens;
using kernels::kPanel;
using kernels::TileCodes;
using kernels::TileSide;

/// Sixteen lanes' codes of four inner elements: byte i of a word is the i-th.
using Quad = std::array<std::uint32_t, kPanel>;

/// Calls f(q, quad) for the quads of all panels, of a row-major tile. What the tile does not have is zero.
template <class F>
void each_quad(TileSide side, std::int64_t dim, const std::uint8_t* tile, F&& f) {
  const bool keys = side == TileSide::kKeys;
  const std::int64_t n_lanes = keys ? kBlockTokens : dim, n_inner = keys ? dim : kBlockTokens;
  const std::int64_t lane_step = keys ? dim : 1, inner_step = keys ? 1 : dim;
  std::int64_t q = 0;
  for (std::int64_t lane = 0; lane < n_lanes; lane += kPanel) {
    const std::int64_t n = std::min(kPanel, n_lanes - lane);
    for (std::int64_t inner = 0; inner < 4 * TileCodes::panel_quads(side, dim); inner += 4, ++q) {
      Quad quad{};
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, n_inner - inner); ++i) {
        const std::uint8_t* const from = tile + lane * lane_step + (inner + i) * inner_step;
        for (std::int64_t j = 0; j < n; ++j) {
          quad[static_cast<std::size_t>(j)] |= std::uint32_t{from[j * lane_step]} << 8 * i;
        }
      }
      f(q, quad);
    }
  }
}

/// Some bits of each code, the lowest first.
void pack_plane(int bits, int lowest, TileSide side, std::int64_t dim, const std::uint8_t* from, std::byte* out) {
  const int quads_that_share = 8 / bits;
  const std::uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
  each_quad(side, dim, from, [&](std::int64_t q, const Quad& quad) {
    const auto shift = static_cast<int>(q % quads_that_share) * bits;
    Quad line;
    std::byte* const to = out + q / quads_that_share * 64;
    std::memcpy(line.data(), to, sizeof line);
    for (std::size_t j = 0; j < line.size(); ++j) line[j] |= (quad[j] >> lowest & mask) << shift;
    std::memcpy(to, line.data(), sizeof line);
  });
}

}  // namespace

void pack_codes(const TileCodes& codes, TileSide side, std::int64_t dim, const std::uint8_t* from, std::byte* out) {
  if (codes.kind == CodeKind::kFloat8) {
    return each_quad(side, dim, from, [&](std::int64_t q, const Quad& quad) {
      for (std::size_t i = 0; i < 4 * quad.size(); ++i) {
        out[q * 64 + static_cast<std::int64_t>(i)] = static_cast<std::byte>(quad[i % kPanel] >> 8 * (i / kPanel));
      }
    });
  }
  if (codes.bits != 3) return pack_plane(codes.bits, 0, side, dim, from, out);
  pack_plane(2, 0, side, dim, from, out);
  pack_plane(1, 2, side, dim, from, out + TileCodes::plane_bytes(2, TileCodes::n_quads(side, dim)));
}

}  // namespace mneme::quant
