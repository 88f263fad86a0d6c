#include "mneme/cache/presets.h"

#include <gtest/gtest.h>

#include "tests/support/cache_kinds.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::thrown;

CacheShape shape() { return {.layers = {testing::layer_of(Retention::all())}, .dtype = DType::kBFloat16}; }

TEST(DynamicCache, Grows) {
  const DynamicCache cache(shape());
  EXPECT_EQ(cache.implementation(), "dynamic");
  EXPECT_FALSE(cache.max_length());
  EXPECT_EQ(cache.n_bytes(), 0);
  EXPECT_EQ(cache.plan().layers[0].codec_name(), "bfloat16");
}

TEST(DynamicCache, TakesItsOptions) {
  DynamicCache cache(shape(), {.max_cache_bytes = 100, .dtype = DType::kFloat16});
  EXPECT_EQ(cache.plan().layers[0].codec_name(), "float16");
  const std::int64_t one[] = {1};
  thrown(ErrorKind::kOutOfMemory, [&] { cache.prepare(one); });
}

TEST(StaticCache, TakesMemoryAtConstructionWhereTheBatchIsKnown) {
  const StaticCache known(shape(), {.max_cache_len = 100, .max_batch_size = 3});
  EXPECT_EQ(known.implementation(), "static");
  EXPECT_EQ(known.max_length(), 100);
  const std::int64_t block = known.layers()[0].attention().layout().block_bytes();
  EXPECT_EQ(known.n_bytes(), 3 * 2 * block);
  StaticCache unknown(shape(), {.max_cache_len = 100});
  EXPECT_EQ(unknown.n_bytes(), 0);
  const std::int64_t two[] = {1, 1};
  unknown.prepare(two);
  EXPECT_EQ(unknown.n_bytes(), 2 * 2 * block);
}

TEST(StaticCache, AWindowTakesWhatItNeeds) {
  CacheShape windowed = shape();
  windowed.layers[0].retention = Retention::last(64);
  const StaticCache cache(windowed, {.max_cache_len = 100000, .max_batch_size = 1});
  EXPECT_LE(cache.n_bytes(), 4 * cache.layers()[0].attention().layout().block_bytes());
}

TEST(StaticCache, RefusesWhatCannotBe) {
  thrown(ErrorKind::kInvalidArgument, [] { StaticCache(shape(), {}); });
  thrown(ErrorKind::kInvalidArgument, [] { StaticCache(shape(), {.max_cache_len = -1}); });
  thrown(ErrorKind::kInvalidArgument, [] { StaticCache(shape(), {.max_cache_len = INT64_MAX}); });
  thrown(ErrorKind::kInvalidArgument, [] { StaticCache(shape(), {.max_cache_len = 1, .max_batch_size = 0}); });
  thrown(ErrorKind::kInvalidArgument, [] { StaticCache(shape(), {.max_cache_len = 1, .max_cache_bytes = 0}); });
  thrown(ErrorKind::kOutOfMemory,
         [] { StaticCache(shape(), {.max_cache_len = 1 << 20, .max_batch_size = 1, .max_cache_bytes = 1 << 20}); });
  constexpr std::int64_t kHuge = std::int64_t{1} << 50;
  thrown(ErrorKind::kOutOfMemory, [] { StaticCache(shape(), {.max_cache_len = kHuge, .max_batch_size = 1}); });
  thrown(ErrorKind::kOutOfMemory, [] { StaticCache(shape(), {.max_cache_len = kHuge, .max_batch_size = kHuge}); });
}

}  // namespace
}  // namespace mneme
