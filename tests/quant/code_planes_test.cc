#include "mneme/quant/code_planes.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kernels/coded_blocks.h"

namespace mneme::quant {
namespace {

using kernels::kBlockTokens;
using kernels::TileCodes;
using kernels::TileSide;

TEST(CodePlanes, EveryCodeOfEveryWidthIsWhereItBelongs) {
  std::mt19937 generator(1);
  for (const int bits : {1, 2, 3, 4, 8}) {
    for (const std::int64_t dim : {1, 2, 15, 16, 20, 64, 80, 96, 128}) {
      for (const TileSide side : {TileSide::kKeys, TileSide::kValues}) {
        const TileCodes codes{.bits = bits};
        std::vector<std::uint8_t> from(static_cast<std::size_t>(kBlockTokens * dim));
        for (std::uint8_t& code : from) code = static_cast<std::uint8_t>(generator() & ((1u << bits) - 1));
        kernels::AlignedBytes packed(codes.code_bytes(side, dim), std::byte{0});
        pack_codes(codes, side, dim, from.data(), packed.data());
        for (std::int64_t i = 0; i < kBlockTokens * dim; ++i) {
          ASSERT_EQ(kernels::code_at(codes, side, dim, packed.data(), i / dim, i % dim),
                    from[static_cast<std::size_t>(i)])
              << bits << " bits, dim " << dim << ", element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mneme::quant
