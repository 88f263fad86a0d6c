// What every static cache keeps to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/cache.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/checked_cache.h"
#include "tests/support/matrix.h"

namespace mneme {
namespace {

using testing::CacheKind;
using testing::CheckedCache;
using testing::Counts;
using testing::for_each_kind;
using ::testing::HasSubstr;
using testing::refused;

template <class Test>
void for_each_static_kind(const Test& test) {
  for_each_kind([&](const CacheKind& kind) {
    if (kind.fixed) test(kind);
  });
}

TEST(ContractStatic, TakesItsMemoryOnce) {
  for_each_static_kind([](const CacheKind& kind) {
    CheckedCache c(kind, kind.make(150));
    ASSERT_NO_FATAL_FAILURE(c.append({8, 3}));
    const std::int64_t n_bytes = c.cache().n_bytes();
    EXPECT_GT(n_bytes, 0);
    for (int i = 0; i < 140; ++i) {
      ASSERT_NO_FATAL_FAILURE(c.append({1, 1}));
      ASSERT_EQ(c.cache().n_bytes(), n_bytes) << i;
    }
    c.reset();
    ASSERT_NO_FATAL_FAILURE(c.append({150, 150}));
    c.reset();
    ASSERT_NO_FATAL_FAILURE(c.append({40}));
    c.repeat(2);
    ASSERT_NO_FATAL_FAILURE(c.append({80, 1}));
    EXPECT_EQ(c.cache().n_bytes(), n_bytes);
    EXPECT_EQ(c.cache().max_length(), 150);
  });
}

#ifdef MNEME_COUNTS_ALLOCATIONS
/// A model's step without the model: appends n tokens to each of two sequences, and attends from them.
class Steps {
 public:
  explicit Steps(Cache& cache) : cache_(cache) {
    for (const LayerPlan& layer : cache.plan().layers) {
      keys_.emplace_back(32, 2 * layer.layout.key_dim), values_.emplace_back(32, 2 * layer.layout.value_dim);
      queries_.emplace_back(32, 4 * layer.layout.key_dim), outs_.emplace_back(32, 4 * layer.layout.value_dim);
    }
  }
  void append(std::int64_t n) {
    const std::int64_t counts[] = {n, n}, starts[] = {0, n, 2 * n};
    Cache::Pass pass(cache_, counts);
    for (std::size_t l = 0; l < keys_.size(); ++l) {
      const auto rows = [&](testing::Matrix& m) { return ops::Rows{m.values.data(), 2 * n, m.width}; };
      cache_.layers()[l].attention().attend(cache_.workspace(), starts,
                                            {.keys = rows(keys_[l]), .values = rows(values_[l])},
                                            {.q = rows(queries_[l]), .n_heads = 4, .scale = 0.3f}, rows(outs_[l]));
    }
    pass.done();
  }

 private:
  Cache& cache_;
  std::vector<testing::Matrix> keys_, values_, queries_, outs_;
};

TEST(ContractStatic, AStepAllocatesNothing) {
  for_each_static_kind([](const CacheKind& kind) {
    Cache cache = kind.make(400);
    Steps steps(cache);
    // Each thread takes scratch memory once, whenever it comes to work first; what a step allocates comes every time.
    std::int64_t fewest = INT64_MAX;
    for (int round = 0; round < 6 && fewest != 0; ++round) {
      cache.reset();
      steps.append(8);
      const std::int64_t before = testing::n_allocations();
      for (int i = 8; i < 400; ++i) steps.append(1);
      fewest = std::min(fewest, testing::n_allocations() - before);
    }
    EXPECT_EQ(fewest, 0);
  });
}
#endif

TEST(ContractStatic, FullIsAnErrorWithBothNumbers) {
  for_each_static_kind([](const CacheKind& kind) {
    CheckedCache c(kind, kind.make(100));
    ASSERT_NO_FATAL_FAILURE(c.append({99, 50}));
    const Counts two = {2, 2}, wide = {0, 51};
    EXPECT_THAT(refused(c, ErrorKind::kFailedPrecondition, [&] { c.cache().prepare(two); }),
                HasSubstr("99 cached + 2 new tokens exceed its capacity of 100; raise max_cache_len"));
    EXPECT_THAT(refused(c, ErrorKind::kFailedPrecondition, [&] { c.cache().prepare(wide); }),
                HasSubstr("50 cached + 51 new tokens"));
    ASSERT_NO_FATAL_FAILURE(c.append({1, 50}));
    const at::Tensor t = at::ones({2, 2, 1, 16});
    EXPECT_THAT(refused(c, ErrorKind::kFailedPrecondition, [&] { c.cache().update(t, t, 0); }),
                HasSubstr("100 cached + 1 new tokens"));
  });
}

TEST(ContractStatic, BatchesOfFourTwoOneFourAndThenFive) {
  for_each_static_kind([](const CacheKind& kind) {
    CheckedCache c(kind, Cache(kind.shape(), {.max_cache_len = 100, .max_batch_size = 4}));
    const std::int64_t n_bytes = c.cache().n_bytes();
    EXPECT_GT(n_bytes, 0);
    for (const std::size_t batch : {4, 2, 1, 4}) {
      c.reset();
      ASSERT_NO_FATAL_FAILURE(c.append(Counts(batch, 70)));
      ASSERT_NO_FATAL_FAILURE(c.append(Counts(batch, 30)));
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
    }
    const Counts five(5, 1);
    c.reset();
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().prepare(five); }),
                ::testing::AllOf(HasSubstr("5 sequences"), HasSubstr("the 4")));
    ASSERT_NO_FATAL_FAILURE(c.append({1, 1}));
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().repeat_interleave(3); }),
                ::testing::AllOf(HasSubstr("6 sequences"), HasSubstr("max_batch_size of 4")));
    EXPECT_EQ(c.cache().n_bytes(), n_bytes);
  });
}

TEST(ContractStatic, RollbackIsInPlace) {
  for_each_static_kind([](const CacheKind& kind) {
    CheckedCache c(kind, kind.make(400));
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({300}));
    const std::set<const std::byte*> all = c.blocks();
    const std::int64_t n_bytes = c.cache().n_bytes();
    c.crop(0);
    const std::set<const std::byte*> held = c.blocks();
    ASSERT_NO_FATAL_FAILURE(c.append({40}));
    c.crop(40);
    if (!kind.seals()) {
      EXPECT_EQ(c.blocks(), held);
    }
    ASSERT_NO_FATAL_FAILURE(c.append({10}));
    EXPECT_EQ(c.cache().n_bytes(), n_bytes);
    for (const std::byte* block : c.blocks()) EXPECT_TRUE(all.contains(block) || kind.limited() || kind.seals());
  });
}

}  // namespace
}  // namespace mneme
