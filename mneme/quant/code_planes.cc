#include "mneme/quant/code_planes.h"

#include <utility>

namespace mneme::quant {
namespace {

using kernels::CodeKind;
using kernels::kBlockTokens;
using kernels::kPanel;
using kernels::TileCodes;
using kernels::TileSide;

/// Calls f(quad, byte of it: 4 lane + inner, element of the row-major tile) for all elements.
template <class F>
void each_code(TileSide side, std::int64_t dim, F&& f) {
  const std::int64_t quads = TileCodes::panel_quads(side, dim);
  for (std::int64_t token = 0; token < kBlockTokens; ++token) {
    for (std::int64_t channel = 0; channel < dim; ++channel) {
      const auto [lane, inner] = side == TileSide::kKeys ? std::pair(token, channel) : std::pair(channel, token);
      f(lane / kPanel * quads + inner / 4, lane % kPanel * 4 + inner % 4, token * dim + channel);
    }
  }
}

/// Some bits of each code, the lowest first.
void pack_plane(int bits, int lowest, TileSide side, std::int64_t dim, const std::uint8_t* from, std::byte* out) {
  const int quads_that_share = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  each_code(side, dim, [&](std::int64_t quad, std::int64_t byte, std::int64_t element) {
    const auto shift = static_cast<int>(quad % quads_that_share) * bits;
    out[quad / quads_that_share * 64 + byte] |= static_cast<std::byte>((from[element] >> lowest & mask) << shift);
  });
}

}  // namespace

void pack_codes(const TileCodes& codes, TileSide side, std::int64_t dim, const std::uint8_t* from, std::byte* out) {
  if (codes.kind == CodeKind::kFloat8) {
    return each_code(side, dim, [&](std::int64_t quad, std::int64_t byte, std::int64_t element) {
      out[quad * 64 + byte % 4 * kPanel + byte / 4] = std::byte{from[element]};
    });
  }
  if (codes.bits != 3) return pack_plane(codes.bits, 0, side, dim, from, out);
  pack_plane(2, 0, side, dim, from, out);
  pack_plane(1, 2, side, dim, from, out + TileCodes::plane_bytes(2, TileCodes::n_quads(side, dim)));
}

}  // namespace mneme::quant
