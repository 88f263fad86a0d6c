#include "mneme/cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cache_kinds.h"
#include "tests/support/thrown.h"

// What every kind keeps to is in contract_test.cc; this is the rest.
namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::layer_of;
using testing::thrown;

const CacheShape kShape{.layers = {layer_of(Retention::all()), layer_of(Retention::last(8))}};

at::Tensor ones(std::int64_t n) { return at::ones({1, 2, n, 16}); }

TEST(Cache, EmptyIsEmpty) {
  Cache cache(kShape, {});
  EXPECT_EQ(cache.seq_length(), 0);
  EXPECT_TRUE(cache.lengths().empty());
  EXPECT_EQ(cache.n_sequences(), 0);
  EXPECT_EQ(cache.layers().size(), 2u);
  EXPECT_EQ(cache.layers()[0].keys().sizes(), at::IntArrayRef({0, 2, 0, 16}));
  cache.crop(0);
  cache.reset();
  cache.repeat_interleave(3);
  EXPECT_EQ(cache.copy().n_sequences(), 0);
}

TEST(Cache, RefusesOptionsThatCannotBe) {
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { Cache({}, {}); }), HasSubstr("no layers"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { Cache(kShape, {.max_batch_size = 3}); }),
              HasSubstr("max_cache_len"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { Cache(kShape, {.config = {.max_cache_bytes = -5}}); }),
              HasSubstr("-5"));
}

TEST(Cache, LayersThatAreNotThere) {
  Cache cache(kShape, {});
  EXPECT_THAT(thrown(ErrorKind::kOutOfRange, [&] { cache.layer(2); }), HasSubstr("layer 2 of a cache of 2 layers"));
  thrown(ErrorKind::kOutOfRange, [&] { cache.layer(-1); });
}

TEST(Cache, RefusesTensorsThatAreNotWhatTheyShouldBe) {
  Cache cache(kShape, {});
  const at::Tensor bad[] = {at::Tensor(), ones(3).to(at::kInt), ones(3).to(at::kComplexFloat), ones(3).to_sparse(),
                            at::empty({1, 2, 3, 16}, at::kMeta)};
  for (const at::Tensor& x : bad) {
    thrown(ErrorKind::kInvalidArgument, [&] { cache.update(x, ones(3), 0); });
    thrown(ErrorKind::kInvalidArgument, [&] { cache.update(ones(3), x, 0); });
  }
  EXPECT_EQ(cache.n_sequences(), 0);
  cache.update(ones(3), ones(3), 0);
  for (const at::Tensor& x : {at::Tensor(), at::zeros({1}), at::zeros({1, 1}, at::kLong)}) {
    thrown(ErrorKind::kInvalidArgument, [&] { cache.reorder(x); });
  }
  for (const std::int64_t n : {std::int64_t{1} << 30, INT64_MAX}) {
    thrown(ErrorKind::kInvalidArgument, [&] { cache.repeat_interleave(n); });
  }
}

TEST(Cache, StoresInTheDtypeAskedFor) {
  Cache cache(kShape, {.dtype = DType::kBFloat16});
  const at::Tensor third = at::full({1, 2, 1, 16}, 1.0f / 3);
  const auto [k, v] = cache.update(third, third, 0);
  EXPECT_EQ(k.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(k, third.to(at::kBFloat16)) && at::equal(v, k));
}

TEST(Cache, AFullLayerIsFoundWhicheverItIs) {
  Cache cache(kShape, {.max_cache_len = 10});
  cache.update(ones(1), ones(1), 0);
  cache.update(ones(9), ones(9), 1);
  const std::int64_t two[] = {2};
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.prepare(two); }), HasSubstr("9 cached + 2 new"));
}

TEST(Cache, UseIsByOneCallAtATime) {
  Cache cache(kShape, {});
  {
    const Cache::Use use(cache);
    EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { const Cache::Use second(cache); }), HasSubstr("copy()"));
    const Cache copy = cache.copy();
    Cache other = cache.copy();
    const Cache::Use of_copy(other);
  }
  const Cache::Use again(cache);
}

TEST(Cache, MovesWithAllItHolds) {
  Cache a(kShape, {});
  a.update(ones(70), ones(70), 0);
  a.update(ones(70), ones(70), 1);
  Cache b(std::move(a));
  EXPECT_EQ(b.seq_length(), 70);
  Cache c(kShape, {});
  c.update(ones(3), ones(3), 0);
  c = std::move(b);
  EXPECT_EQ(c.seq_length(), 70);
  c.update(ones(1), ones(1), 0);
  EXPECT_EQ(c.layers()[0].length(0), 71);
}

// Layers of one block size share a pool; others have their own, and the budget is one for all.
TEST(Cache, TheBudgetCoversAllPoolsOrNothingIsTaken) {
  const CacheShape shape{.layers = {layer_of(Retention::all()), layer_of(Retention::all(), 32)}};
  const std::int64_t small = 64 * 2 * 32 * 4, large = 64 * 2 * 48 * 4;
  Cache fits(shape, {.max_cache_len = 64, .max_batch_size = 1, .config = {.max_cache_bytes = small + large}});
  EXPECT_EQ(fits.n_bytes(), small + large);
  Cache late(shape, {.max_cache_len = 64, .config = {.max_cache_bytes = small + large - 1}});
  const std::int64_t one[] = {1};
  thrown(ErrorKind::kOutOfMemory, [&] { late.prepare(one); });
  EXPECT_EQ(late.n_bytes(), 0);
}

/// A pass that ends in an error after its first layer: the others have not seen its tokens.
void fail_after_one_layer(Cache& cache, std::int64_t n) {
  const std::int64_t counts[] = {n};
  const Cache::Pass pass(cache, counts);
  cache.layer(0).attention().update(cache.workspace(), ones(n), ones(n));
}

TEST(Cache, APassThatFailsIsTakenBack) {
  for (const std::int64_t cached : {0, 100}) {
    for (const bool recording : {false, true}) {
      Cache cache({.layers = {layer_of(Retention::all()), layer_of(Retention::all())}}, {});
      if (recording) cache.activate_past_recording();
      for (int l = 0; l < 2 && cached; ++l) cache.update(ones(cached), ones(cached), l);
      fail_after_one_layer(cache, 70);
      EXPECT_EQ(cache.lengths(), std::vector{cached});
      EXPECT_EQ(cache.layers()[0].recording(), recording);
      for (int l = 0; l < 2; ++l) EXPECT_EQ(cache.update(ones(1), ones(1), l).first.size(2), cached + 1);
    }
  }
}

TEST(Cache, APassThatCannotBeTakenBackIsToldUntilItIsReset) {
  Cache cache({.layers = {layer_of(Retention::last(8)), layer_of(Retention::all())}}, {});
  for (int l = 0; l < 2; ++l) cache.update(ones(300), ones(300), l);
  const Cache before = cache.copy();
  fail_after_one_layer(cache, 70);
  const std::int64_t counts[] = {1};
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.prepare(counts); }), HasSubstr("reset() it"));
  Cache copy = before.copy();
  copy.prepare(counts);
  cache.reset();
  cache.prepare(counts);
  EXPECT_EQ(cache.lengths(), std::vector<std::int64_t>{0});
}

TEST(Cache, ASteadyLoopAllocatesNoScratch) {
  Cache cache(kShape, {});
  cache.update(ones(5), ones(5), 0);
  for (int i = 0; i < 3; ++i) cache.update(ones(1), ones(1), 0);
  const std::int64_t before = cache.workspace().n_allocations();
  for (int i = 0; i < 100; ++i) cache.update(ones(1), ones(1), 0);
  EXPECT_EQ(cache.workspace().n_allocations(), before);
}

}  // namespace
}  // namespace mneme
