// What every static cache keeps to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/cache.h"
#include "tests/support/checked_cache.h"

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
