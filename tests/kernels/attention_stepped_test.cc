#include "mneme/kernels/attention_stepped.h"

#include "tests/kernels/attention_cases.h"

namespace mneme::kernels {
namespace {

using namespace attention_cases;

TEST(SteppedAttention, GroupsOfRowsThatAreNotFull) {
  for (DType format : kFormats) {
    for (std::int64_t n : {15, 16, 17, 31, 32, 33, 47, 48, 49}) {
      check({.format = format, .key_dim = 40, .value_dim = 80, .first_query = 190, .n_queries = n});
    }
  }
}

TEST(SteppedAttention, HeadsOfAnySize) {
  for (DType format : kFormats) {
    for (auto [key_dim, value_dim] : {std::pair{8, 8}, {64, 64}, {128, 128}, {576, 512}}) {
      check({.format = format,
             .group = 2,
             .key_dim = key_dim,
             .value_dim = value_dim,
             .first_query = 60,
             .n_queries = 20});
    }
  }
}

TEST(SteppedAttention, WhatQueriesSee) {
  for (DType format : kFormats) {
    const Case many{.format = format, .group = 4, .first_query = 100, .n_queries = 40};
    Case c = many;
    c.visibility = {.window = 20, .sinks = 70};
    check(c);
    c.visibility = {.chunk = 50};
    check(c);
    c = many, c.softcap = 5;
    check(c);
    c = many, c.n_keys = 150;
    check(c);
    for (float scale : {-0.3f, 0.0f}) {
      c = many, c.other_scale = scale;
      check(c);
    }
  }
}

/// Rows that see nothing of a block between rows that do: window and chunk limit queries by turns.
TEST(SteppedAttention, RowsThatSeeNothingBetweenOthers) {
  for (DType format : kFormats) {
    check({.format = format, .n_queries = 100, .visibility = {.window = 70, .chunk = 66}});
  }
}

/// A sum that underflows has no sign: whether it would depends on how many slots other rows made the call read.
TEST(SteppedAttention, UnderflowDoesNotShowLaterTokens) {
  Inputs in({.n_queries = 48});
  std::fill(in.q.begin(), in.q.end(), 1.0f);
  std::fill(in.keys.begin(), in.keys.end(), 0.0f);
  std::fill_n(in.keys.begin(), 16, 1.0f);
  for (std::size_t i = 0; i < 48 * 16; ++i) in.values[i] = i < 16 ? 0.0f : i < 256 ? -0x1p-126f : 1.0f;
  for (const Table* table : tables_under_test()) {
    EXPECT_EQ(bits(attend(*table, in, {.rows = 1})), bits(attend(*table, in))) << table->name;
  }
}

TEST(SteppedAttention, HugeScores) {
  for (DType format : kFormats) {
    Inputs in({.format = format, .n_queries = 40});
    for (float& x : in.q) x *= 0x1p33f;
    const Vector exact = reference(in), expected = attend(*tables_under_test().front(), in);
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(expected[i], exact[i], tolerance(format)) << i;
    for (const Table* table : tables_under_test()) EXPECT_EQ(bits(attend(*table, in)), bits(expected)) << table->name;
  }
}

TEST(SteppedAttention, ScoresThatAreNotFinite) {
  for (DType format : kFormats) {
    Inputs in({.format = format, .n_queries = 200});
    std::fill(in.q.begin(), in.q.end(), 1.0f);
    std::fill_n(in.keys.begin(), 16, -kInfinity);       // row 0 has no other score
    std::fill_n(in.keys.begin() + 130 * 16, 16, kNan);  // rows from 130 on
    const auto numbers = [](Vector v) {
      for (float& x : v) x = std::isnan(x) ? 7e7f : x;
      return bits(v);
    };
    const auto expected = numbers(attend(*tables_under_test().front(), in));
    for (const Table* table : tables_under_test()) {
      for (std::int64_t rows : {1, 5, 16, 17, 48}) {
        EXPECT_EQ(numbers(attend(*table, in, {.rows = rows})), expected) << table->name << ' ' << rows;
      }
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
