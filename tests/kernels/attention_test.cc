#include "mneme/kernels/attention.h"

#include "tests/kernels/attention_cases.h"

namespace mneme::kernels {
namespace {

using namespace attention_cases;

TEST(Attention, FirstQueryAnywhere) {
  for (DType format : kFormats) {
    for (std::int64_t first : {0, 1, 17, 62, 63, 64, 65, 127, 128, 129, 511, 512, 1030}) {
      for (std::int64_t n : {1, 3}) check({.format = format, .group = 2, .first_query = first, .n_queries = n});
    }
  }
}

TEST(Attention, GroupsAndHeadSizes) {
  for (DType format : kFormats) {
    for (std::int64_t group = 1; group <= 8; ++group) {
      check({.format = format, .group = group, .key_dim = 64, .value_dim = 64, .first_query = 70, .n_queries = 2});
    }
    for (auto [key_dim, value_dim] :
         {std::pair{16, 16}, {64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 128}, {24, 40}, {16, 272}}) {
      check({.format = format,
             .group = 3,
             .key_dim = key_dim,
             .value_dim = value_dim,
             .first_query = 60,
             .n_queries = 9});
    }
  }
}

TEST(Attention, PrefillOfManyRows) {
  for (DType format : kFormats) check({.format = format, .group = 3, .key_dim = 32, .value_dim = 32, .n_queries = 150});
}

TEST(Attention, Windows) {
  for (DType format : kFormats) {
    for (std::int64_t window : {1, 4, 63, 64, 65, 100, 600}) {
      for (std::int64_t first : {0, 63, 64, 130, 700}) {
        check({.format = format, .group = 2, .first_query = first, .n_queries = 5, .visibility = {.window = window}});
      }
      check({.format = format, .n_queries = 200, .visibility = {.window = window}});
    }
  }
}

TEST(Attention, Chunks) {
  for (DType format : kFormats) {
    for (std::int64_t chunk : {1, 8, 64, 100}) {
      for (std::int64_t first : {0, 7, 8, 63, 64, 199, 200, 600}) {
        check({.format = format, .group = 2, .first_query = first, .n_queries = 10, .visibility = {.chunk = chunk}});
      }
    }
  }
}

TEST(Attention, SinksAndWindow) {
  for (DType format : kFormats) {
    for (std::int64_t sinks : {1, 4, 16, 64, 70, 200}) {
      for (std::int64_t first : {0, 3, 20, 64, 90, 300, 700}) {
        const Visibility visibility{.window = 20, .sinks = sinks};
        check({.format = format, .group = 2, .first_query = first, .n_queries = 4, .visibility = visibility});
      }
    }
  }
}

TEST(Attention, SoftcapAndSinkLogits) {
  for (DType format : kFormats) {
    for (std::int64_t first : {0, 64, 600}) {
      check({.format = format, .group = 4, .first_query = first, .n_queries = 3, .softcap = 5.0f});
      check({.format = format, .group = 4, .first_query = first, .n_queries = 3, .sink_logits = true});
      check({.format = format,
             .group = 4,
             .first_query = first,
             .n_queries = 3,
             .visibility = {.window = 9},
             .softcap = 2.0f,
             .sink_logits = true});
    }
  }
}

TEST(Attention, EveryQuerySeesAllKeys) {
  for (DType format : kFormats) {
    for (std::int64_t n_keys : {1, 15, 16, 63, 64, 65, 128, 511, 512, 513, 1030}) {
      for (std::int64_t n : {1, 70}) check({.format = format, .group = 2, .n_queries = n, .n_keys = n_keys});
    }
  }
}

// What lies behind the query counts, and only if the attention is not causal.
TEST(Attention, LaterKeysCountWhereAllAreSeen) {
  for (const std::int64_t n_keys : {0, 100}) {
    const Case c{.n_queries = 100, .n_keys = n_keys};
    const Inputs one(c);
    Inputs other = one;
    other.values.back() += 1.0f;
    const Vector a = attend(*tables_under_test().front(), one), b = attend(*tables_under_test().front(), other);
    EXPECT_EQ(std::equal(a.begin(), a.begin() + c.value_dim, b.begin()), n_keys == 0) << n_keys;
  }
}

TEST(Attention, RelativeBias) {
  for (DType format : kFormats) {
    for (std::int64_t reach : {0, 1, 8, 63, 64, 128}) {
      for (std::int64_t first : {0, 17, 64, 200, 700}) {
        check({.format = format, .group = 3, .first_query = first, .n_queries = 20, .bias_reach = reach});
      }
      check({.format = format, .group = 2, .n_queries = 150, .n_keys = 150, .bias_reach = reach});
      check({.format = format, .group = 2, .n_queries = 3, .n_keys = 600, .bias_reach = reach});
    }
  }
}

/// Both at once have no model, but rows that see nothing then lie between rows that do.
TEST(Attention, RowsThatSeeNothingBetweenOthers) {
  check({.n_queries = 100, .visibility = {.window = 70, .chunk = 66}});
}

// A window of W is the current token and W - 1 before it.
TEST(Attention, WindowOfFourAtTenIsSevenToTen) {
  Inputs in({.first_query = 10, .visibility = {.window = 4}});
  for (std::int64_t j = 0; j <= 10; ++j) {
    for (std::int64_t n = 0; n < 16; ++n) in.values[j * 16 + n] = j == n ? 1.0f : 0.0f;
  }
  for (const Table* table : tables_under_test()) {
    const Vector out = attend(*table, in);
    for (std::int64_t j = 0; j < 16; ++j) EXPECT_EQ(out[j] != 0.0f, j >= 7 && j <= 10) << table->name << ' ' << j;
  }
}

// Later tokens of the same call change nothing for an earlier row.
TEST(Attention, IsCausalAcrossBlockBorders) {
  for (DType format : kFormats) {
    for (std::int64_t history : {1, 15, 16, 63, 64, 65, 127, 128}) {
      const Case c{.format = format, .group = 2, .first_query = history, .n_queries = 4};
      const Inputs one(c);
      Inputs other(c, 99);
      std::copy_n(one.q.begin(), 2 * c.key_dim, other.q.begin());
      std::copy_n(one.keys.begin(), (history + 1) * c.key_dim, other.keys.begin());
      std::copy_n(one.values.begin(), (history + 1) * c.value_dim, other.values.begin());
      for (const Table* table : tables_under_test()) {
        Vector a = attend(*table, one), b = attend(*table, other);
        a.resize(2 * c.value_dim), b.resize(2 * c.value_dim);
        EXPECT_EQ(bits(a), bits(b)) << table->name << ' ' << name_of(format) << ' ' << history;
      }
    }
  }
}

// Large scores neither overflow nor drown: the maximum is subtracted.
TEST(Attention, LargeScores) {
  Inputs in({.group = 2, .first_query = 100, .n_queries = 2});
  for (float& x : in.q) x *= 1000.0f;
  const Vector exact = reference(in);
  for (const Table* table : tables_under_test()) {
    const Vector out = attend(*table, in);
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], exact[i], 2e-3) << table->name;
  }
}

TEST(AttentionStates, ASpanThatNobodySeesIsEmpty) {
  for (const Table* table : tables_under_test()) {
    const std::byte* nothing[2] = {};
    const Vector q(16);
    const AttendArgs args{.q = q.data(),
                          .q_stride = 64,
                          .n_rows = 1,
                          .first_row = 0,
                          .group = 1,
                          .first_query = 500,
                          .blocks = nothing,
                          .first_block = 1,
                          .head_offset = 0,
                          .key_dim = 16,
                          .value_dim = 16,
                          .scale = 1.0f,
                          .softcap = 0.0f,
                          .visibility = {.window = 8}};
    Vector state(attend_state_floats(16), 7.0f), expected(attend_state_floats(16), 0.0f);
    expected[0] = -kInfinity;
    table->of(DType::kFloat32).attend(args, 1, 3, state.data());
    EXPECT_EQ(bits(state), bits(expected)) << table->name;

    Vector y(16, 7.0f);
    float* row = y.data();
    const float sink = 3.0f;
    for (const float* sinks : {static_cast<const float*>(nullptr), &sink}) {
      table->finish_states(state.data(), 1, 0, 1, 16, sinks, &row);
      EXPECT_EQ(bits(y), bits(Vector(16, 0.0f))) << table->name;
    }
  }
}

TEST(AttentionStates, MergingWithAnEmptySpanChangesNothing) {
  const std::int64_t n = attend_state_floats(20);
  Vector full = random_floats(n, 1), empty(n, 0.0f);
  full[1] = 3.0f;
  empty[0] = -kInfinity;
  for (const Table* table : tables_under_test()) {
    Vector total = full;
    table->merge_states(total.data(), empty.data(), 1, 20);
    EXPECT_EQ(bits(total), bits(full)) << table->name;
    total = empty;
    table->merge_states(total.data(), full.data(), 1, 20);
    EXPECT_EQ(bits(total), bits(full)) << table->name;
    total = empty;
    table->merge_states(total.data(), empty.data(), 1, 20);
    EXPECT_EQ(bits(total), bits(empty)) << table->name;
  }
}

TEST(AttentionStates, FinishWritesTheChannelsThereAre) {
  Vector state(attend_state_floats(20), 0.0f), y(24, 7.0f);
  state[0] = 1.0f;
  state[1] = 2.0f;
  for (int i = 0; i < 20; ++i) state[16 + i] = static_cast<float>(i);
  for (const Table* table : tables_under_test()) {
    float* row = y.data();
    table->finish_states(state.data(), 1, 0, 1, 20, nullptr, &row);
    for (int i = 0; i < 24; ++i) EXPECT_EQ(y[i], i < 20 ? static_cast<float>(i) / 2 : 7.0f) << table->name;
  }
}

}  // namespace
}  // namespace mneme::kernels
