#include "mneme/quant/block_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/kernels/coded_blocks.h"
#include "tests/support/floats.h"

namespace mneme::quant {
namespace {

using kernels::AlignedBytes;
using kernels::BlockCodes;
using kernels::BlockLayout;
using kernels::kBlockTokens;
using kernels::TileCodes;
using kernels::TileSide;
using testing::random_floats;

using Vector = std::vector<float>;
using CodecPointer = std::shared_ptr<const BlockCodec>;

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Every kind of codec for one layout.
std::vector<CodecPointer> all_codecs(const BlockLayout& raw) {
  std::vector<CodecPointer> codecs = {make_int8(raw), make_fp8(raw)};
  for (const int bits : {2, 4}) {
    for (const int axis : {0, -1})
      codecs.push_back(make_quanto({.nbits = bits, .axis_key = axis, .axis_value = axis, .q_group_size = 16}, raw));
  }
  for (const int bits : {1, 2, 3, 4, 8}) {
    for (const int axis : {0, 1})
      codecs.push_back(make_hqq({.nbits = bits, .axis_key = axis, .axis_value = 1 - axis, .q_group_size = 32}, raw));
  }
  for (const auto& [key_bits, value_bits] : {std::pair{4, 2}, {2, 2}, {3, 2}, {8, 3}})
    codecs.push_back(make_kivi({.nbits_key = key_bits, .nbits_value = value_bits}, raw));
  return codecs;
}

/// Raw blocks whose heads all hold the same keys and values, rounded to the format.
AlignedBytes raw_block(const BlockLayout& layout, const Vector& keys, const Vector& values) {
  AlignedBytes block(layout.block_bytes(), std::byte{0});
  for (std::int64_t head = 0; head < layout.n_heads; ++head) {
    kernels::active()
        .of(layout.format)
        .store_tokens(layout, block.data() + head * layout.head_bytes(), 0, kBlockTokens, keys.data(), layout.key_dim,
                      values.data(), layout.value_dim);
  }
  return block;
}

struct Rows {
  Vector keys, values;
};

Rows rows_of(const BlockLayout& layout, const AlignedBytes& block, std::int64_t head = 0) {
  Rows rows{Vector(static_cast<std::size_t>(kBlockTokens * layout.key_dim)),
            Vector(static_cast<std::size_t>(kBlockTokens * layout.value_dim))};
  kernels::active()
      .of(layout.format)
      .load_tokens(layout, block.data() + head * layout.head_bytes(), 0, kBlockTokens, rows.keys.data(), layout.key_dim,
                   rows.values.data(), layout.value_dim);
  return rows;
}

AlignedBytes encoded(const BlockCodec& codec, const AlignedBytes& raw, bool first = false) {
  AlignedBytes block(codec.codes().block_bytes(first));
  codec.encode(raw.data(), first, block.data());
  return block;
}

AlignedBytes decoded(const BlockCodec& codec, const AlignedBytes& block, bool first = false) {
  AlignedBytes raw(codec.codes().raw.block_bytes());
  codec.decode(block.data(), first, raw.data());
  return raw;
}

Rows round_trip(const BlockCodec& codec, const Vector& keys, const Vector& values, bool first = false) {
  const BlockLayout& layout = codec.codes().raw;
  return rows_of(layout, decoded(codec, encoded(codec, raw_block(layout, keys, values), first), first));
}

/// sqrt(sum of squared errors / sum of squares)
double relative_error(const Vector& x, const Vector& y) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    square += static_cast<double>(x[i]) * x[i];
  }
  return std::sqrt(error / square);
}

double most_error(int bits) {
  switch (bits) {
    case 1: return 1.42;  // two values at the ends of the range, 2.07 deviations out: sqrt(1 + 2.07^2 - 4 * 2.07 * 0.4)
    case 2: return 0.5;
    case 3: return 0.22;
    case 4: return 0.1;
    default: return 0.03;
  }
}

TEST(BlockCodec, DecodesToWhatItEncodedWithinItsBits) {
  for (const DType format : kFormats) {
    for (const std::int64_t dim : {16, 20, 64, 80, 96, 128}) {
      const BlockLayout layout{.format = format, .n_heads = 2, .key_dim = dim, .value_dim = dim == 80 ? 96 : dim};
      const Vector keys = random_floats(64 * layout.key_dim, 1), values = random_floats(64 * layout.value_dim, 2);
      for (const CodecPointer& codec : all_codecs(layout)) {
        const Rows rows = round_trip(*codec, keys, values);
        const BlockCodes& codes = codec->codes();
        EXPECT_LT(relative_error(keys, rows.keys), most_error(codes.keys.bits)) << codec->name() << ' ' << dim;
        EXPECT_LT(relative_error(values, rows.values), most_error(codes.values.bits)) << codec->name() << ' ' << dim;
      }
    }
  }
}

TEST(BlockCodec, Int8IsWithinHalfAStepOfEachToken) {
  for (const std::int64_t dim : {1, 15, 16, 64, 80}) {
    const BlockLayout layout{.format = DType::kFloat32, .n_heads = 1, .key_dim = dim, .value_dim = dim};
    const Vector keys = random_floats(64 * dim, 1), values = random_floats(64 * dim, 2, 100.0f);
    const Rows rows = round_trip(*make_int8(layout), keys, values);
    const auto check = [&](const Vector& x, const Vector& y) {
      for (std::int64_t t = 0; t < 64; ++t) {
        float largest = 0;
        for (std::int64_t d = 0; d < dim; ++d) largest = std::max(largest, std::abs(x[t * dim + d]));
        for (std::int64_t d = 0; d < dim; ++d) ASSERT_NEAR(y[t * dim + d], x[t * dim + d], largest / 127 * 0.57f);
      }
    };
    check(keys, rows.keys);
    check(values, rows.values);
  }
}

// Three bits behind the first; below 2^-6 of the scale, which is a normal float16, the spacing is 2^-9 of it.
TEST(BlockCodec, Fp8IsWithinHalfOfItsLastBit) {
  const BlockLayout layout{.format = DType::kFloat32, .n_heads = 1, .key_dim = 64, .value_dim = 64};
  for (const float size : {1e-3f, 1.0f, 1000.0f}) {
    const Vector keys = random_floats(64 * 64, 1, size);
    float largest = 0;
    for (const float x : keys) largest = std::max(largest, std::abs(x));
    const float spacing = std::max(largest / 448, 0x1p-14f) * 0x1p-9f;
    const Rows rows = round_trip(*make_fp8(layout), keys, keys);
    for (std::size_t i = 0; i < keys.size(); ++i)
      ASSERT_NEAR(rows.keys[i], keys[i], std::abs(keys[i]) * 1.01f / 16 + spacing / 2 * 1.01f);
    EXPECT_EQ(rows.keys, rows.values);
  }
}

TEST(BlockCodec, NamesAndBytes) {
  const BlockLayout layout{.format = DType::kBFloat16, .n_heads = 3, .key_dim = 64, .value_dim = 64};
  const auto share = [&](const CodecPointer& codec) {
    return static_cast<double>(codec->codes().block_bytes(false)) / static_cast<double>(layout.block_bytes());
  };
  struct Expected {
    CodecPointer codec;
    const char* name;
    double most;
  };
  for (const auto& [codec, name, most] :
       {Expected{make_int8(layout), "int8", 0.516}, Expected{make_fp8(layout), "fp8", 0.508},
        Expected{make_quanto({}, layout), "quanto4", 0.28125}, Expected{make_hqq({}, layout), "hqq4", 0.28125},
        Expected{make_quanto({.nbits = 2}, layout), "quanto2", 0.15625},
        Expected{make_hqq({.nbits = 3}, layout), "hqq3", 0.21875}, Expected{make_kivi({}, layout), "kivi4+4", 0.3125},
        Expected{make_kivi({.nbits_value = 2}, layout), "kivi4+2", 0.25},
        Expected{make_kivi({.nbits_key = 3, .nbits_value = 2}, layout), "kivi3+2", 0.21875},
        Expected{make_kivi({.nbits_key = 2, .nbits_value = 2}, layout), "kivi2+2", 0.1875}}) {
    EXPECT_EQ(codec->name(), name);
    EXPECT_LE(share(codec), most) << name;
    EXPECT_EQ(codec->codes().head_bytes() % 64, 0) << name;
  }
  EXPECT_EQ(make_kivi({}, layout)->codes().block_bytes(true),
            make_kivi({}, layout)->codes().block_bytes(false) + 3 * 4 * 128 * 2);
}

TEST(BlockCodec, FirstTokensStayAsTheyWereAndLeaveGroupsAlone) {
  for (const DType format : kFormats) {
    const BlockLayout layout{.format = format, .n_heads = 2, .key_dim = 20, .value_dim = 40};
    Vector keys = random_floats(64 * 20, 1), values = random_floats(64 * 40, 2);
    const CodecPointer codec = make_kivi({.nbits_key = 2, .nbits_value = 2, .sink_length = 3}, layout);
    const Rows ordinary = round_trip(*codec, keys, values, true);
    for (std::int64_t i = 0; i < 3 * 20; ++i) keys[i] *= 1000.0f;  // attention sinks have keys of their own kind
    for (std::int64_t i = 0; i < 3 * 40; ++i) values[i] *= 1000.0f;
    const Rows raw = rows_of(layout, raw_block(layout, keys, values)), rows = round_trip(*codec, keys, values, true);
    EXPECT_TRUE(std::equal(rows.keys.begin(), rows.keys.begin() + 60, raw.keys.begin()));
    EXPECT_TRUE(std::equal(rows.values.begin(), rows.values.begin() + 120, raw.values.begin()));
    EXPECT_TRUE(std::equal(rows.keys.begin() + 60, rows.keys.end(), ordinary.keys.begin() + 60));
    EXPECT_TRUE(std::equal(rows.values.begin() + 120, rows.values.end(), ordinary.values.begin() + 120));
  }
}

TEST(BlockCodec, WholeGroupsOfFirstTokens) {
  const BlockLayout layout{.format = DType::kBFloat16, .n_heads = 1, .key_dim = 16, .value_dim = 16};
  const Vector x = random_floats(64 * 16, 1);
  const Rows raw = rows_of(layout, raw_block(layout, x, x));
  EXPECT_EQ(round_trip(*make_kivi({.sink_length = 64}, layout), x, x, true).keys, raw.keys);
  const Rows half = round_trip(*make_kivi({.sink_length = 32}, layout), x, x, true);
  EXPECT_TRUE(std::equal(half.keys.begin(), half.keys.begin() + 32 * 16, raw.keys.begin()));
  EXPECT_LT(relative_error(raw.keys, half.keys), 0.1);
}

/// Numbers that a broken or strange model may give.
TEST(BlockCodec, AnyInputDecodesToFiniteNumbers) {
  const float kinds[] = {testing::kNan, testing::kInfinity, -testing::kInfinity, 3e38f, -3e38f, 1e-42f, 65504.0f, 0.0f};
  for (const DType format : kFormats) {
    for (const std::int64_t dim : {16, 20}) {
      const BlockLayout layout{.format = format, .n_heads = 1, .key_dim = dim, .value_dim = dim};
      for (const CodecPointer& codec : all_codecs(layout)) {
        for (const float kind : kinds) {
          for (const bool everywhere : {true, false}) {
            Vector x = everywhere ? Vector(static_cast<std::size_t>(64 * dim), kind) : random_floats(64 * dim, 3);
            x[static_cast<std::size_t>(5 * dim + 3)] = kind;
            const Rows rows = round_trip(*codec, x, x);
            for (const Vector* y : {&rows.keys, &rows.values}) {
              ASSERT_TRUE(std::all_of(y->begin(), y->end(), [](float v) { return std::isfinite(v); }))
                  << codec->name() << ' ' << kind << ' ' << name_of(format);
            }
          }
        }
      }
    }
  }
}

TEST(BlockCodec, AConstantTileIsExactWithinFloat16) {
  const BlockLayout layout{.format = DType::kFloat32, .n_heads = 1, .key_dim = 16, .value_dim = 16};
  for (const CodecPointer& codec : all_codecs(layout)) {
    if (codec->name() == "fp8" || codec->name() == "int8") continue;
    for (const float x : {0.0f, 1.5f, -0.1f, 1000.0f}) {
      const Rows rows = round_trip(*codec, Vector(64 * 16, x), Vector(64 * 16, x));
      for (const float y : rows.keys) ASSERT_NEAR(y, x, std::abs(x) / 1024) << codec->name();
      for (const float y : rows.values) ASSERT_NEAR(y, x, std::abs(x) / 1024) << codec->name();
    }
  }
}

TEST(BlockCodec, HeadByHeadIsTheSame) {
  const BlockLayout layout{.format = DType::kBFloat16, .n_heads = 3, .key_dim = 20, .value_dim = 16};
  const AlignedBytes raw = raw_block(layout, random_floats(64 * 20, 1), random_floats(64 * 16, 2));
  for (const CodecPointer& codec : all_codecs(layout)) {
    AlignedBytes block(codec->codes().block_bytes(true)), back(layout.block_bytes());
    for (const std::int64_t head : {2, 0, 1}) codec->encode_head(raw.data(), head, true, block.data());
    EXPECT_EQ(block, encoded(*codec, raw, true)) << codec->name();
    for (const std::int64_t head : {1, 2, 0}) codec->decode_head(block.data(), head, true, back.data());
    EXPECT_EQ(back, decoded(*codec, block, true)) << codec->name();
  }
}

TEST(BlockCodecConcurrent, ThreadsGiveTheSameBytes) {
  const BlockLayout layout{.format = DType::kBFloat16, .n_heads = 2, .key_dim = 64, .value_dim = 64};
  const AlignedBytes raw = raw_block(layout, random_floats(64 * 64, 1, 1e-20f), random_floats(64 * 64, 2));
  for (const CodecPointer& codec : all_codecs(layout)) {
    const AlignedBytes expected = encoded(*codec, raw);
    std::vector<AlignedBytes> blocks(4, AlignedBytes(codec->codes().block_bytes(false)));
    std::vector<std::thread> threads;
    for (AlignedBytes& block : blocks)
      threads.emplace_back([&codec, &raw, &block] { codec->encode(raw.data(), false, block.data()); });
    for (std::thread& thread : threads) thread.join();
    for (const AlignedBytes& block : blocks) EXPECT_EQ(block, expected) << codec->name();
  }
}

// Two channels of keys fifty times larger than the others: groups of one channel do not let them spoil the rest.
TEST(BlockCodec, GroupsOfAChannelKeepOutliersApart) {
  const BlockLayout layout{.format = DType::kFloat32, .n_heads = 1, .key_dim = 64, .value_dim = 64};
  Vector keys = random_floats(kBlockTokens * 64, 3);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % 64 == 5 || i % 64 == 40) keys[i] *= 50;
  }
  const auto error = [&](const BlockCodec& codec) { return relative_error(keys, round_trip(codec, keys, keys).keys); };
  const double per_channel = error(*make_kivi({.nbits_key = 4}, layout));
  const double per_token = error(*make_quanto({.nbits = 4, .axis_key = 0}, layout));
  EXPECT_LT(per_channel, per_token / 2);
}

}  // namespace
}  // namespace mneme::quant
