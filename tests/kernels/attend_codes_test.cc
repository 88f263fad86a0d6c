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
  const std::vector<float> q = random_floats(n_rows * layout.key_dim, 7, 0.5f);
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

void check(const Case& c) {
  SCOPED_TRACE(::testing::Message() << name_of(c.codes.raw.format) << " dims " << c.codes.raw.key_dim << ','
                                    << c.codes.raw.value_dim << " group " << c.group << " queries " << c.n_queries);
  const auto expected = bits(attend(*tables_under_test().front(), c, false));
  for (const Table* table : tables_under_test()) ASSERT_EQ(bits(attend(*table, c, true)), expected) << table->name;
}

BlockCodes codes_of(DType format, std::int64_t dim, int key_bits = 4, int value_bits = 2) {
  return {.keys = {.bits = key_bits, .has_offset = true, .grouping = Grouping::kTokens, .group = 32},
          .values = {.bits = value_bits, .has_offset = true, .grouping = Grouping::kChannels, .group = 32},
          .raw = {.format = format, .n_heads = 2, .key_dim = dim, .value_dim = dim},
          .sink_length = 4};
}

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

TEST(AttendCodes, EqualsAttentionOverDecodedBlocks) {
  for (const DType format : kFormats) {
    for (const std::int64_t dim : {15, 16, 64, 80}) {
      for (const std::int64_t n_queries : {1, 16})
        ASSERT_NO_FATAL_FAILURE(
            check({.codes = codes_of(format, dim), .group = 3, .first_query = 170, .n_queries = n_queries}));
    }
    for (const int bits : {2, 3, 8})
      ASSERT_NO_FATAL_FAILURE(check({.codes = codes_of(format, 64, bits, bits), .group = 2, .first_query = 170}));
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

}  // namespace
}  // namespace mneme::kernels
