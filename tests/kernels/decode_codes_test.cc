#include "mneme/kernels/decode_codes.h"

#include <gtest/gtest.h>

#include "mneme/base/flush_denormals.h"
#include "tests/kernels/coded_blocks.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Every number is what the description says, every other byte zero, on every instruction set.
void check(const BlockCodes& codes, bool first) {
  const FlushDenormals mode;
  const BlockLayout& layout = codes.raw;
  SCOPED_TRACE(::testing::Message() << name_of(layout.format) << " dims " << layout.key_dim << ',' << layout.value_dim
                                    << " keys " << codes.keys << " values " << codes.values << " sinks "
                                    << codes.sink_length << " first " << first);
  const AlignedBytes block = random_block(codes, first, 1);
  const std::int64_t n_sinks = first ? codes.sink_length : 0;
  AlignedBytes expected(layout.block_bytes(), std::byte{0});
  for (std::int64_t head = 0; head < layout.n_heads; ++head) {
    std::vector<float> keys(kBlockTokens * layout.key_dim), values(kBlockTokens * layout.value_dim);
    const std::byte *tile = block.data() + codes.head_offset(head), *sink = block.data() + codes.sink_offset(head);
    const auto raw_number = [&](std::int64_t i) {
      if (layout.format == DType::kFloat32) {
        float x;
        std::memcpy(&x, sink + 4 * i, 4);
        return x;
      }
      std::uint16_t half;
      std::memcpy(&half, sink + 2 * i, 2);
      return layout.format == DType::kBFloat16 ? from_bfloat16(half) : from_float16(half);
    };
    for (std::int64_t t = 0; t < kBlockTokens; ++t) {
      for (std::int64_t d = 0; d < layout.key_dim; ++d) {
        const float x = value_at(codes.keys, TileSide::kKeys, layout.key_dim, tile, t, d);
        keys[t * layout.key_dim + d] =
            t < n_sinks ? raw_number(t * layout.key_dim + d) : rounded_once(layout.format, x);
      }
      for (std::int64_t d = 0; d < layout.value_dim; ++d) {
        const float x = value_at(codes.values, TileSide::kValues, layout.value_dim, tile + codes.key_bytes(), t, d);
        values[t * layout.value_dim + d] =
            t < n_sinks ? raw_number(codes.sink_length * layout.key_dim + t * layout.value_dim + d)
                        : rounded_once(layout.format, x);
      }
    }
    tables_under_test()
        .front()
        ->of(layout.format)
        .store_tokens(layout, expected.data() + head * layout.head_bytes(), 0, kBlockTokens, keys.data(),
                      layout.key_dim, values.data(), layout.value_dim);
  }
  for (const Table* table : tables_under_test()) {
    ASSERT_EQ(decoded(*table, codes, block, first), expected) << table->name;
  }
}

TEST(DecodeCodes, EveryTileOfEverySize) {
  for (const std::int64_t dim : {1, 15, 16, 20, 40, 64, 96}) {
    const auto tiles = tiles_to_test(dim);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const BlockLayout layout{.format = kFormats[i % 3], .n_heads = 2, .key_dim = dim, .value_dim = dim};
      ASSERT_NO_FATAL_FAILURE(check({.keys = tiles[i], .values = tiles[i], .raw = layout}, false));
    }
  }
}

TEST(DecodeCodes, EveryTileInEveryFormat) {
  for (const DType format : kFormats) {
    for (const TileCodes& tile : tiles_to_test(20)) {
      const BlockLayout layout{.format = format, .n_heads = 1, .key_dim = 20, .value_dim = 20};
      ASSERT_NO_FATAL_FAILURE(check({.keys = tile, .values = tile, .raw = layout}, false));
    }
  }
}

TEST(DecodeCodes, FirstTokensStayAsTheyWere) {
  const TileCodes keys{.bits = 2, .has_offset = true, .grouping = Grouping::kTokens, .group = 32};
  const TileCodes values{.bits = 3, .has_offset = true, .grouping = Grouping::kChannels, .group = 32};
  for (const DType format : kFormats) {
    for (const std::int64_t sinks : {0, 1, 4, 63, 64}) {
      const BlockLayout layout{.format = format, .n_heads = 2, .key_dim = 20, .value_dim = 33};
      for (const bool first : {false, true})
        ASSERT_NO_FATAL_FAILURE(check({.keys = keys, .values = values, .raw = layout, .sink_length = sinks}, first));
    }
  }
}

TEST(DecodeCodes, Float16IsNeverInfinite) {
  const TileCodes tile{.bits = 4, .has_offset = true, .grouping = Grouping::kTokens, .group = 64};
  const BlockCodes codes{
      .keys = tile, .values = tile, .raw = {.format = DType::kFloat16, .n_heads = 1, .key_dim = 16, .value_dim = 16}};
  AlignedBytes block(codes.block_bytes(false), std::byte{0xff});
  for (std::byte* part : {block.data() + tile.code_bytes(TileSide::kKeys, 16),
                          block.data() + codes.key_bytes() + tile.code_bytes(TileSide::kValues, 16)}) {
    const std::uint16_t largest = to_float16(65504.0f);
    for (std::int64_t i = 0; i < tile.scale_bytes(TileSide::kValues, 16); ++i) std::memcpy(part + 2 * i, &largest, 2);
  }
  for (const Table* table : tables_under_test()) {
    const AlignedBytes raw = decoded(*table, codes, block, false);
    std::vector<float> keys(64 * 16), values(64 * 16);
    table->of(DType::kFloat16).load_tokens(codes.raw, raw.data(), 0, 64, keys.data(), 16, values.data(), 16);
    EXPECT_EQ(bits(keys), bits(std::vector<float>(64 * 16, 65504.0f))) << table->name;
    EXPECT_EQ(bits(values), bits(std::vector<float>(64 * 16, 65504.0f))) << table->name;
  }
}

TEST(TileCodes, BitsAreReal) {
  for (const std::int64_t dim : {16, 20, 64, 80, 96, 128}) {
    const TileCodes three{.bits = 3};
    EXPECT_LE(static_cast<double>(three.code_bytes(TileSide::kKeys, dim)) * 8 / static_cast<double>(64 * dim), 3.2);
    for (const int wanted : {1, 2, 4, 8}) {
      if (dim % 8) continue;
      const TileCodes tile{.bits = wanted};
      EXPECT_EQ(tile.code_bytes(TileSide::kKeys, dim), 8 * dim * wanted);
      if (dim % 16 == 0) {
        EXPECT_EQ(tile.code_bytes(TileSide::kValues, dim), 8 * dim * wanted);
      }
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
