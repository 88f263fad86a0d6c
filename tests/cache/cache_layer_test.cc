#include "mneme/cache/cache_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/cache.h"
#include "tests/support/cache_kinds.h"
#include "tests/support/files.h"
#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

// Caches whose layers hold states, keys and values, or both.
namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::Matrix;
using testing::thrown;
using Counts = std::vector<std::int64_t>;

const StateShape kState{.sizes = {1}, .input_width = 1};

LayerShape state_only() { return {.state = kState}; }
LayerShape both(const Retention& retention) {
  LayerShape shape = testing::layer_of(retention);
  shape.state = kState;
  return shape;
}
/// As hybrids have them: states alone, keys and values alone, and both in one slot.
CacheShape hybrid() {
  return {.layers = {state_only(), testing::layer_of(Retention::all()), both(Retention::last(8))}};
}

/// Appends `counts[i]` tokens of value `x` to every part of every layer. A state is the sum of its tokens.
void append(Cache& cache, const Counts& counts, float x = 1.0f) {
  cache.prepare(counts);
  Counts row_starts{0};
  for (const std::int64_t n : counts) row_starts.push_back(row_starts.back() + n);
  Matrix rows(row_starts.back(), 32), out(row_starts.back(), 32);
  std::fill(rows.values.begin(), rows.values.end(), x);
  const auto sum = [](std::span<const ops::StateRun> runs, const ops::Rows& inputs, const ops::Rows&) {
    for (const ops::StateRun& run : runs) {
      float h = *run.before;
      const ops::StateMark* mark = run.marks.data();
      for (std::int64_t t = 0; t < run.n_rows; ++t) {
        h += *inputs.row(run.first_row + t);
        if (mark->n_rows == t + 1) *mark++->states = h;
      }
    }
  };
  for (CacheLayer& layer : cache.layers()) {
    if (layer.has_state()) layer.state().advance(cache.workspace(), row_starts, rows.rows(), out.rows(), sum);
    if (layer.has_attention()) {
      layer.attention().attend(cache.workspace(), row_starts, {.keys = rows.rows(), .values = rows.rows()},
                               {.q = rows.rows(), .n_heads = 2}, out.rows());
    }
  }
}

float state_of(Cache& cache, std::int64_t layer, std::int64_t sequence) {
  return cache.layer(layer).state().state(sequence, 0).item<float>();
}

void expect_lengths(const Cache& cache, const Counts& lengths) {
  EXPECT_EQ(cache.lengths(), lengths);
  for (const CacheLayer& layer : cache.layers()) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto sequence = static_cast<std::int64_t>(i);
      const std::int64_t length = lengths[i];
      EXPECT_EQ(layer.has_state() ? layer.state().length(sequence) : length, length);
      EXPECT_EQ(layer.has_attention() ? layer.attention().length(sequence) : length, length);
    }
  }
}

TEST(CacheLayer, EveryPartTakesPartInEveryOperation) {
  Cache cache(hybrid(), {});
  cache.activate_past_recording();
  append(cache, {3, 70});
  expect_lengths(cache, {3, 70});
  Cache fork = cache.copy();
  append(cache, {1, 1});
  expect_lengths(cache, {4, 71});
  expect_lengths(fork, {3, 70});
  cache.reorder({1, 1, 0});
  expect_lengths(cache, {71, 71, 4});
  EXPECT_EQ(state_of(cache, 0, 0), 71);
  EXPECT_EQ(state_of(cache, 2, 2), 4);
  cache.crop(-2);
  expect_lengths(cache, {69, 69, 2});
  append(cache, {1, 1, 1}, 0.5f);
  EXPECT_EQ(state_of(cache, 0, 1), 69.5f);
  EXPECT_EQ(state_of(cache, 2, 2), 2.5f);
  EXPECT_EQ(state_of(fork, 2, 0), 3);
  cache.repeat_interleave(2);
  EXPECT_EQ(cache.n_sequences(), 6);
  cache.reset();
  EXPECT_EQ(cache.n_sequences(), 0);
  EXPECT_EQ(cache.n_bytes(), 0);
  append(cache, {5});
  expect_lengths(cache, {5});
  EXPECT_EQ(state_of(cache, 0, 0), 5);
  EXPECT_EQ(cache.layers()[1].keys().size(2), 5);
}

TEST(CacheLayer, SequencesOfEveryPartJoin) {
  for (const bool of_one_family : {true, false}) {
    Cache cache(hybrid(), {});
    Cache other = of_one_family ? cache.copy() : Cache(hybrid(), {});
    for (Cache* c : {&cache, &other}) c->activate_past_recording();
    append(cache, {3, 70});
    append(other, {130}, 2.0f);
    cache.add_sequences(other);
    append(cache, {1, 1, 1});
    expect_lengths(cache, {4, 71, 131});
    EXPECT_EQ(state_of(cache, 0, 2), 261);
    EXPECT_EQ(state_of(other, 2, 0), 260);
    cache.crop(-3);
    append(cache, {1, 1, 1}, 0.5f);
    EXPECT_EQ(state_of(cache, 0, 0), 1.5f);
    EXPECT_EQ(state_of(cache, 2, 1), 68.5f);
    EXPECT_EQ(state_of(cache, 2, 2), 256.5f);
    cache.add_sequences(cache);  // with a crop that is replayed only now
    cache.crop(-1);
    cache.add_sequences(other);
    append(cache, Counts(7, 1));
    EXPECT_EQ(state_of(cache, 0, 5), 257);
    EXPECT_EQ(state_of(cache, 2, 6), 261);
    expect_lengths(other, {130});
  }
}

// B1 and B5: 0, 1, all, and more than all; a refusal leaves every part as it was.
TEST(CacheLayer, ACropHappensInEveryPartOrInNone) {
  for (const std::int64_t n : {0, 1, 6}) {
    Cache cache(hybrid(), {});
    cache.activate_past_recording();
    append(cache, {6});
    cache.crop(-n);
    expect_lengths(cache, {6 - n});
    append(cache, {2});
    expect_lengths(cache, {8 - n});
    EXPECT_EQ(state_of(cache, 0, 0), static_cast<float>(8 - n));
  }
  Cache cache(hybrid(), {});
  append(cache, {6});
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.crop(-1); }), HasSubstr("activate_past_recording()"));
  thrown(ErrorKind::kInvalidArgument, [&] { cache.crop(-11); });
  expect_lengths(cache, {6});
  append(cache, {1});
  EXPECT_EQ(state_of(cache, 2, 0), 7);
}

TEST(CacheLayer, APartThatIsNotThereIsAnError) {
  Cache cache(hybrid(), {});
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.layer(0).keys(); }), HasSubstr("no keys and values"));
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.layer(1).state(); }),
              HasSubstr("no recurrent states"));
  const at::Tensor keys = at::zeros({1, 2, 3, 16});
  thrown(ErrorKind::kFailedPrecondition, [&] { cache.update(keys, keys, 0); });
  EXPECT_EQ(cache.n_sequences(), 0);
}

TEST(CacheLayer, IsSavedAndLoadedWithAllParts) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/x";
  Cache cache(hybrid(), {});
  append(cache, {70, 3});
  cache.save(path);
  Cache loaded = Cache::load(path, hybrid());
  expect_lengths(loaded, {70, 3});
  EXPECT_EQ(state_of(loaded, 0, 0), 70);
  loaded.activate_past_recording();
  append(loaded, {100, 100}, 0.5f);
  loaded.crop(-30);
  loaded.save(path);  // while the crop is still to be replayed
  Cache again = Cache::load(path, hybrid());
  EXPECT_TRUE(again.layers()[0].recording());
  expect_lengths(again, {140, 73});
  append(again, {1, 1}, 2.0f);
  EXPECT_EQ(state_of(again, 0, 0), 70 + 0.5f * 70 + 2);
  EXPECT_EQ(state_of(again, 2, 1), 3 + 0.5f * 70 + 2);
  again.crop(-1);
  append(again, {1, 1}, 4.0f);
  EXPECT_EQ(state_of(again, 2, 1), 3 + 0.5f * 70 + 4);
  expect_lengths(Cache::load(path, hybrid()), {140, 73});  // the file is as it was
  CacheShape other = hybrid();
  other.layers[0].state->sizes = {2};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { Cache::load(path, other); }), HasSubstr("another size"));
}

TEST(CacheLayer, AStaticCacheTakesItsMemoryOnce) {
  Cache cache(hybrid(), {.max_cache_len = 100, .max_batch_size = 2});
  const std::int64_t bytes = cache.n_bytes();
  append(cache, {60, 100});
  append(cache, {40, 0});
  EXPECT_EQ(cache.n_bytes(), bytes);
  thrown(ErrorKind::kFailedPrecondition, [&] { append(cache, {0, 1}); });
  expect_lengths(cache, {100, 100});
}

TEST(CacheLayer, ABudgetIsForStatesToo) {
  const std::int64_t state_bytes = StateLayer::state_bytes(kState);
  Cache cache({.layers = {state_only()}}, {.config = {.max_cache_bytes = state_bytes * 80}});
  thrown(ErrorKind::kOutOfMemory, [&] { append(cache, Counts(81, 1)); });
  EXPECT_EQ(cache.n_sequences(), 0);
  append(cache, Counts(80, 1));
}

TEST(CacheLayer, ShapesWithoutAnyPartAreRefused) {
  thrown(ErrorKind::kInvalidArgument, [] { Cache cache({.layers = {LayerShape{}}}, {}); });
  thrown(ErrorKind::kInvalidArgument, [] { Cache cache({.layers = {LayerShape{.state = StateShape{}}}}, {}); });
}

}  // namespace
}  // namespace mneme
