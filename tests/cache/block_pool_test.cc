#include "mneme/cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::thrown;

constexpr std::int64_t kBytes = 4096;

std::shared_ptr<Tier> memory() { return std::make_shared<DeviceTier>(at::kCPU); }
std::shared_ptr<ByteBudget> no_limit() { return std::make_shared<ByteBudget>(0); }

bool is_zero(const BlockRef& block) {
  return std::all_of(block.data(), block.data() + kBytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(BlockPool, BlocksAreZeroAlsoWhenUsedBefore) {
  BlockPool pool(kBytes, memory(), no_limit());
  for (int round = 0; round < 3; ++round) {
    std::vector<BlockRef> blocks;
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(pool.take_zeroed());
      ASSERT_TRUE(is_zero(blocks.back()));
      std::memset(blocks.back().data(), 0xff, kBytes);  // NaN in every format
    }
  }
}

TEST(BlockPool, BlocksAreApart) {
  BlockPool pool(kBytes, memory(), no_limit());
  std::vector<BlockRef> blocks;
  std::set<std::byte*> starts;
  for (int i = 0; i < 200; ++i) starts.insert(blocks.emplace_back(pool.take()).data());
  EXPECT_EQ(starts.size(), 200u);
  EXPECT_EQ(pool.n_in_use(), 200);
  EXPECT_GE(pool.capacity(), 200);
}

TEST(BlockPool, TheLastReferenceGivesBack) {
  BlockPool pool(kBytes, memory(), no_limit());
  BlockRef a = pool.take();
  const std::byte* const address = a.data();
  EXPECT_TRUE(a.unique());
  BlockRef b = a;
  EXPECT_FALSE(a.unique());
  a = BlockRef();
  EXPECT_FALSE(a);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_TRUE(b.unique());
  EXPECT_EQ(pool.n_in_use(), 1);
  BlockRef c = std::move(b);
  b = c;
  c = c;  // onto itself
  b = BlockRef();
  EXPECT_EQ(c.data(), address);
  c = BlockRef();
  EXPECT_EQ(pool.n_in_use(), 0);
  EXPECT_EQ(pool.take().data(), address);  // the warmest block comes first
}

TEST(BlockPool, CopiesHoldTheSameBytes) {
  BlockPool pool(kBytes, memory(), no_limit());
  const BlockRef source = pool.take();
  std::memset(source.data(), 7, kBytes);
  const BlockRef copy = pool.take_copy(source);
  EXPECT_NE(copy.data(), source.data());
  EXPECT_EQ(std::memcmp(copy.data(), source.data(), kBytes), 0);
}

TEST(BlockPool, ReserveTakesMemoryOnce) {
  BlockPool pool(kBytes, memory(), no_limit());
  EXPECT_EQ(pool.bytes_to_reserve(10), 10 * kBytes);
  pool.reserve(10);
  EXPECT_EQ(pool.capacity(), 10);
  EXPECT_EQ(pool.bytes_to_reserve(10), 0);
  pool.reserve(10);
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(pool.take());
  EXPECT_EQ(pool.capacity(), 10);
  pool.reserve(1);  // more than are in use
  EXPECT_EQ(pool.capacity(), 11);
}

TEST(BlockPool, TheBudgetIsSharedAndGivenBack) {
  const auto budget = std::make_shared<ByteBudget>(20 * kBytes);
  BlockPool a(kBytes, memory(), budget);
  a.reserve(12);
  {
    BlockPool b(kBytes, memory(), budget);
    EXPECT_THAT(thrown(ErrorKind::kOutOfMemory, [&] { b.reserve(9); }),
                ::testing::HasSubstr("49152 bytes in use + 36864 more exceed max_cache_bytes = 81920"));
    EXPECT_EQ(b.capacity(), 0);
    b.reserve(8);
    thrown(ErrorKind::kOutOfMemory, [&] { budget->check_room(1); });
  }
  budget->check_room(8 * kBytes);
  a.reserve(20);
}

// Taking a block beyond what is reserved adds a slab that the budget has room for, or fails.
TEST(BlockPool, TakeRespectsTheBudget) {
  BlockPool pool(kBytes, memory(), std::make_shared<ByteBudget>(kBytes - 1));
  thrown(ErrorKind::kOutOfMemory, [&] { pool.take(); });
  EXPECT_EQ(pool.n_in_use(), 0);
}

TEST(BlockPool, SizesThatDoNotFit64BitsAreErrors) {
  BlockPool pool(std::int64_t{1} << 40, memory(), no_limit());
  EXPECT_EQ(pool.bytes_to_reserve(std::int64_t{1} << 40), INT64_MAX);
  thrown(ErrorKind::kOutOfMemory, [&] { pool.reserve(std::int64_t{1} << 40); });
  thrown(ErrorKind::kOutOfMemory, [&] { pool.reserve(std::int64_t{1} << 21); });
  EXPECT_EQ(pool.capacity(), 0);
}

TEST(BlockPoolConcurrency, ThreadsTakeAndGiveBack) {
  BlockPool pool(kBytes, memory(), no_limit());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 200; ++i) {
        const BlockRef a = pool.take_zeroed(), b = pool.take_copy(a);
        EXPECT_TRUE(is_zero(a) && is_zero(b));
        std::memset(a.data(), t + 1, kBytes);
        std::memset(b.data(), t + 1, kBytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.n_in_use(), 0);
}

}  // namespace
}  // namespace mneme
