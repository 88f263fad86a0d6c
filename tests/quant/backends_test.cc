#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "mneme/base/json.h"
#include "mneme/quant/block_codec.h"
#include "tests/kernels/coded_blocks.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme::quant {
namespace {

using kernels::BlockCodes;
using kernels::BlockLayout;
using kernels::kBlockTokens;
using kernels::TileCodes;
using kernels::TileSide;
using ::testing::HasSubstr;
using testing::thrown;

std::shared_ptr<const BlockCodec> codec_of(const Json& c, const BlockLayout& layout) {
  const auto bits = c["nbits"].get<int>(), axis = c["axis"].get<int>();
  const auto group = c["group"].get<std::int64_t>();
  const auto backend = c["backend"].get<std::string>();
  if (backend == "quanto")
    return make_quanto({.nbits = bits, .axis_key = axis, .axis_value = axis, .q_group_size = group}, layout);
  if (backend == "hqq")
    return make_hqq({.nbits = bits, .axis_key = axis, .axis_value = axis, .q_group_size = group}, layout);
  return make_fp8(layout);
}

/// The numbers that make_codecs.py made its codes of.
std::vector<float> golden_tile(std::int64_t dim) {
  std::vector<float> tile;
  auto state = static_cast<std::uint64_t>(dim);
  for (std::int64_t i = 0; i < kBlockTokens * dim; ++i) {
    std::int64_t total = 0;
    for (int j = 0; j < 4; ++j) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      total += static_cast<std::int64_t>(state >> 48);
    }
    tile.push_back(static_cast<float>(total - 131070) / 32768 * (i % dim % 9 == 4 ? 8.0f : 1.0f));
  }
  return tile;
}

// At least 99.9 % of the codes, and values within what float16 makes of scales and offsets.
TEST(Backends, MakeTheCodesOfThePythonPackages) {
  const Json golden = read_json_file(testing::test_data("codecs.json"));
  ASSERT_GT(golden["cases"].size(), 50u);
  for (const Json& c : golden["cases"]) {
    const auto dim = c["dim"].get<std::int64_t>();
    SCOPED_TRACE(c["backend"].dump() + " nbits " + c["nbits"].dump() + " axis " + c["axis"].dump() + " group " +
                 c["group"].dump() + " dim " + c["dim"].dump());
    const BlockLayout layout{.format = DType::kFloat32, .n_heads = 1, .key_dim = dim, .value_dim = dim};
    const auto codec = codec_of(c, layout);
    const BlockCodes& codes = codec->codes();
    const std::vector<float> tile = golden_tile(dim);
    kernels::AlignedBytes raw(layout.block_bytes(), std::byte{0}), block(codes.block_bytes(false));
    kernels::active()
        .of(layout.format)
        .store_tokens(layout, raw.data(), 0, kBlockTokens, tile.data(), dim, tile.data(), dim);
    codec->encode(raw.data(), false, block.data());

    const auto digits = c["codes"].get<std::string>();
    const std::size_t width = c["nbits"].get<int>() == 8 ? 2 : 1;
    for (const TileSide side : {TileSide::kKeys, TileSide::kValues}) {
      const bool keys = side == TileSide::kKeys;
      const TileCodes& tile_codes = keys ? codes.keys : codes.values;
      const std::byte* encoded = block.data() + (keys ? 0 : codes.key_bytes());
      std::int64_t equal = 0;
      for (std::int64_t i = 0; i < kBlockTokens * dim; ++i) {
        const int expected = std::stoi(digits.substr(static_cast<std::size_t>(i) * width, width), nullptr, 16);
        const int code = kernels::code_at(tile_codes, side, dim, encoded, i / dim, i % dim);
        equal += code == expected;
        if (code != expected || i % 37) continue;
        const float value = kernels::value_at(tile_codes, side, dim, encoded, i / dim, i % dim);
        const auto theirs = c["values"][static_cast<std::size_t>(i / 37)].get<float>();
        const std::int64_t slot = tile_codes.scale_slot(side, dim, i / dim, i % dim);
        std::uint16_t half = 0;
        if (tile_codes.has_offset) {
          std::memcpy(&half, encoded + tile_codes.code_bytes(side, dim) + tile_codes.scale_bytes(side, dim) + 2 * slot,
                      2);
        }
        const float at_zero = from_float16(half);
        ASSERT_NEAR(value, theirs, (std::abs(theirs - at_zero) + std::abs(at_zero)) / 2000) << i;
      }
      EXPECT_GE(static_cast<double>(equal), 0.999 * static_cast<double>(kBlockTokens * dim))
          << (keys ? "keys" : "values");
    }
  }
}

constexpr BlockLayout kLayout{.format = DType::kFloat32, .n_heads = 2, .key_dim = 20, .value_dim = 24};

TEST(Backends, RefuseGroupsThatDoNotFit) {
  const auto message = [](auto&& make) { return thrown(ErrorKind::kInvalidArgument, make); };
  EXPECT_THAT(message([] { make_quanto({.q_group_size = 96}, kLayout); }),
              HasSubstr("groups of 96 do not divide the 1280 numbers"));
  EXPECT_THAT(message([] { make_quanto({.axis_value = -1, .q_group_size = 128}, kLayout); }),
              HasSubstr("groups of 128 tokens do not divide the 64 tokens"));
  EXPECT_THAT(message([] { make_hqq({.axis_key = 1, .axis_value = 1, .q_group_size = 1024}, kLayout); }),
              HasSubstr("groups of 1024 do not divide the 1280 numbers"));
  EXPECT_THAT(message([] { make_hqq({.q_group_size = 48}, kLayout); }), HasSubstr("groups of 48 tokens"));
  EXPECT_THAT(message([] { make_kivi({.q_group_size = 24}, kLayout); }), HasSubstr("groups of 24 tokens"));
  for (const std::int64_t group : {std::int64_t{0}, std::int64_t{-8}, std::int64_t{1} << 62}) {
    message([=] { make_quanto({.q_group_size = group}, kLayout); });
    message([=] { make_hqq({.q_group_size = group}, kLayout); });
    message([=] { make_kivi({.q_group_size = group}, kLayout); });
  }
}

TEST(Backends, TakeGroupsThatSpanTokens) {
  EXPECT_NO_THROW(make_quanto({.q_group_size = 64}, kLayout));  // 64 * 20 = 20 groups
  EXPECT_NO_THROW(make_quanto({.q_group_size = 128}, kLayout));
  EXPECT_NO_THROW(make_hqq({.axis_key = 1, .axis_value = 1, .q_group_size = 256}, kLayout));
}

TEST(Backends, RefuseOptionsThatThereAreNot) {
  const auto message = [](auto&& make) { return thrown(ErrorKind::kInvalidArgument, make); };
  EXPECT_THAT(message([] { make_quanto({.nbits = 3}, kLayout); }), HasSubstr("nbits 3 is not one of 2, 4"));
  EXPECT_THAT(message([] { make_hqq({.nbits = 5}, kLayout); }), HasSubstr("nbits 5 is not one of 1, 2, 3, 4, 8"));
  EXPECT_THAT(message([] { make_kivi({.nbits_key = 1}, kLayout); }), HasSubstr("nbits_key 1"));
  EXPECT_THAT(message([] { make_kivi({.nbits_value = 5}, kLayout); }), HasSubstr("nbits_value 5"));
  EXPECT_THAT(message([] { make_quanto({.axis_key = 1}, kLayout); }), HasSubstr("axis_key 1 is not one of 0, -1"));
  EXPECT_THAT(message([] { make_hqq({.axis_value = -1}, kLayout); }), HasSubstr("axis_value -1 is not one of 0, 1"));
  for (const std::int64_t sinks : {-1, 65}) {
    EXPECT_THAT(message([=] { make_kivi({.sink_length = sinks}, kLayout); }), HasSubstr("sink_length"));
  }
}

TEST(Backends, RefuseSizesThatCannotBe) {
  for (const BlockLayout& layout : {BlockLayout{.n_heads = 0, .key_dim = 16, .value_dim = 16},
                                    BlockLayout{.n_heads = 1, .key_dim = -16, .value_dim = 16},
                                    BlockLayout{.n_heads = 1, .key_dim = 16, .value_dim = std::int64_t{1} << 40}}) {
    thrown(ErrorKind::kInvalidArgument, [&] { make_int8(layout); });
    thrown(ErrorKind::kInvalidArgument, [&] { make_kivi({}, layout); });
  }
}

}  // namespace
}  // namespace mneme::quant
