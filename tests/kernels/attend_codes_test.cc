#include "mneme/kernels/attend_codes.h"

#include <gtest/gtest.h>

#include "mneme/base/flush_denormals.h"
#include "tests/kernels/coded_blocks.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;

struct Case {
  BlockCodes codes;
  std::int64_t n_sealed = 2, n_blocks = 3, group = 1, first_query = 150, n_queries = 1;
  Visibility visibility = {};
  std::int64_t first_q = 0;  ///< row of the random queries
};

/// States of one span, with the first blocks encoded or decoded before.
std::vector<float> attend(const Table& table, const Case& c, bool encoded) {
  const FlushDenormals mode;
  const BlockCodes& codes = c.codes;
  const BlockLayout& layout = codes.raw;
  std::vector<AlignedBytes> sealed, raw;
  for (std::int64_t b = 0; b < c.n_blocks; ++b) {
    sealed.push_back(random_block(codes, b == 0, static_cast<unsigned>(b + 1)));
    raw.push_back(decoded(table, codes, sealed.back(), b == 0));
  }
  // Nobody may look at what has no pointer.
  std::vector<const std::byte*> sealed_blocks, raw_blocks;
  const std::int64_t n_sealed = encoded ? c.n_sealed : 0;
  for (std::int64_t b = 0; b < c.n_blocks; ++b) {
    sealed_blocks.push_back(b < n_sealed ? sealed[b].data() : nullptr);
    raw_blocks.push_back(b < n_sealed ? nullptr : raw[b].data());
  }
  const FormatKernels& kernels = table.of(layout.format);
  const std::int64_t n_rows = c.n_queries * c.group, prepared = kernels.prepared_bytes(layout.key_dim);
  const std::vector<float> q = [&] {
    std::vector<float> rows = random_floats((c.first_q + n_rows) * layout.key_dim, 7, 0.5f);
    rows.erase(rows.begin(), rows.begin() + c.first_q * layout.key_dim);
    return rows;
  }();
  AlignedBytes prepared_q(n_rows * prepared);
  if (prepared) kernels.prepare(q.data(), layout.key_dim, n_rows, layout.key_dim, prepared_q.data());
  const std::int64_t head = layout.n_heads - 1;
  const AttendArgs args{.q = prepared ? static_cast<const void*>(prepared_q.data()) : q.data(),
                        .q_stride = prepared ? prepared : layout.key_dim * 4,
                        .n_rows = n_rows,
                        .first_row = 0,
                        .group = c.group,
                        .first_query = c.first_query,
                        .blocks = raw_blocks.data(),
                        .first_block = 0,
                        .head_offset = head * layout.head_bytes(),
                        .key_dim = layout.key_dim,
                        .value_dim = layout.value_dim,
                        .scale = 0.3f,
                        .softcap = 0.0f,
                        .visibility = c.visibility};
  std::vector<float> states(n_rows * attend_state_floats(layout.value_dim), 7.0f);
  if (encoded) {
    AlignedBytes scratch(decode_scratch_bytes(codes));
    table.codes->of(layout.format)
        .attend({.raw = args,
                 .q = q.data(),
                 .codes = &codes,
                 .head = head,
                 .sealed = sealed_blocks.data(),
                 .n_sealed = n_sealed,
                 .scratch = scratch.data()},
                0, c.n_blocks, states.data());
  } else {
    kernels.attend(args, 0, c.n_blocks, states.data());
  }
  return states;
}

/// Every instruction set gives the same bits: those of attention over decoded blocks where no code is multiplied, else
/// numbers near them, and each query what it gets alone.
void check(const Case& c) {
  const BlockCodes& codes = c.codes;
  SCOPED_TRACE(::testing::Message() << name_of(codes.raw.format) << " dims " << codes.raw.key_dim << ','
                                    << codes.raw.value_dim << " keys " << codes.keys << " group " << c.group
                                    << " queries " << c.n_queries);
  const bool multiplied = codes.keys.is_multiplied(TileSide::kKeys, codes.raw.key_dim) ||
                          codes.values.is_multiplied(TileSide::kValues, codes.raw.value_dim);
  const std::vector<float> decoded = attend(*tables_under_test().front(), c, false);
  const std::vector<float> expected = multiplied ? attend(*tables_under_test().front(), c, true) : decoded;
  for (const Table* table : tables_under_test())
    ASSERT_EQ(bits(attend(*table, c, true)), bits(expected)) << table->name;
  if (!multiplied) return;
  const std::int64_t n_floats = attend_state_floats(codes.raw.value_dim), n_rows = c.n_queries * c.group;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const float *got = expected.data() + r * n_floats, *exact = decoded.data() + r * n_floats;
    ASSERT_NEAR(got[0], exact[0], 0.15);  // the largest score
    if (exact[1] == 0) continue;
    for (std::int64_t i = 16; i < 16 + codes.raw.value_dim; ++i)
      ASSERT_NEAR(got[i] / got[1], exact[i] / exact[1], 0.12) << "row " << r << " channel " << i - 16;
  }
  Case one = c;
  one.n_queries = 1;
  for (std::int64_t query = 0; query < c.n_queries; ++query) {
    one.first_query = c.first_query + query;
    one.first_q = query * c.group;
    const std::vector<float> alone = attend(*tables_under_test().front(), one, true);
    const auto row = expected.begin() + query * c.group * n_floats;
    ASSERT_EQ(bits(alone), bits({row, row + c.group * n_floats})) << "query " << query;
  }
}

BlockCodes codes_of(DType format, std::int64_t dim, int key_bits = 4, int value_bits = 2) {
  return {.keys = {.bits = key_bits, .has_offset = true, .grouping = Grouping::kTokens, .group = 32},
          .values = {.bits = value_bits, .has_offset = true, .grouping = Grouping::kChannels, .group = 32},
          .raw = {.format = format, .n_heads = 2, .key_dim = dim, .value_dim = dim},
          .sink_length = 4};
}

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

TEST(AttendCodes, IsAttentionOverWhatTheCodesMean) {
  for (const DType format : kFormats) {
    for (const std::int64_t dim : {15, 16, 64, 80}) {
      for (const std::int64_t n_queries : {1, 16})
        ASSERT_NO_FATAL_FAILURE(
            check({.codes = codes_of(format, dim), .group = 3, .first_query = 170, .n_queries = n_queries}));
    }
    for (const int bits : {2, 3, 8})
      ASSERT_NO_FATAL_FAILURE(check({.codes = codes_of(format, 64, bits, bits), .group = 2, .first_query = 170}));
    BlockCodes other = codes_of(format, 64);  // groups the other way round, and numbers that are no integers
    std::swap(other.keys, other.values);
    ASSERT_NO_FATAL_FAILURE(check({.codes = other, .group = 5, .first_query = 170, .n_queries = 9}));
    other.values = {.kind = CodeKind::kFloat8, .grouping = Grouping::kTile};
    ASSERT_NO_FATAL_FAILURE(check({.codes = other, .group = 3, .first_query = 170}));
    other.keys = other.values;
    ASSERT_NO_FATAL_FAILURE(check({.codes = other, .group = 3, .first_query = 170}));
  }
}

TEST(AttendCodes, AnyNumberOfBlocksIsEncoded) {
  for (const std::int64_t n_sealed : {0, 1, 2, 3, 5})
    ASSERT_NO_FATAL_FAILURE(check({.codes = codes_of(DType::kBFloat16, 32), .n_sealed = n_sealed, .first_query = 190}));
}

TEST(AttendCodes, WindowsChunksAndSinks) {
  for (const DType format : kFormats) {
    for (const Visibility& visibility : {Visibility{.window = 5}, Visibility{.window = 70}, Visibility{.chunk = 100},
                                         Visibility{.window = 9, .sinks = 4}})
      ASSERT_NO_FATAL_FAILURE(check(
          {.codes = codes_of(format, 16), .group = 2, .first_query = 120, .n_queries = 20, .visibility = visibility}));
  }
}

/// Encoded blocks, then raw ones that many rows take in steps.
TEST(AttendCodes, ManyRowsGoOnOverRawBlocks) {
  for (const DType format : kFormats) {
    for (const std::int64_t n_sealed : {1, 2}) {
      ASSERT_NO_FATAL_FAILURE(check({.codes = codes_of(format, 16),
                                     .n_sealed = n_sealed,
                                     .n_blocks = 4,
                                     .group = 2,
                                     .first_query = 200,
                                     .n_queries = 24}));
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
