#include "mneme/cache/block_list.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace mneme {
namespace {

class BlockListTest : public ::testing::Test {
 protected:
  BlockList list_of(std::int64_t n) {
    BlockList list;
    for (std::int64_t b = 0; b < n; ++b) list.push_back(pool_.take());
    return list;
  }

  static std::vector<const std::byte*> content(const BlockList& list) {
    std::vector<const std::byte*> blocks;
    for (std::int64_t b = 0; b < list.size(); ++b) blocks.push_back(list.at(b).data());
    return blocks;
  }

  /// Spans and each_block agree with the entries.
  static void expect_consistent(const BlockList& list) {
    std::vector<const std::byte*> held;
    list.each_block([&](const BlockRef& block) { held.push_back(block.data()); });
    std::vector<const std::byte*> expected = content(list);
    for (std::int64_t b = 0; b < list.size(); b += kernels::kSpanBlocks) {
      const std::byte* const* span = list.span(b);
      for (std::int64_t i = 0; i < kernels::kSpanBlocks; ++i) {
        ASSERT_EQ(span[i], b + i < list.size() ? list.at(b + i).data() : nullptr) << b + i;
      }
    }
    std::erase(expected, nullptr);
    ASSERT_EQ(held, expected);
  }

  BlockPool pool_{64, std::make_shared<DeviceTier>(at::kCPU), std::make_shared<ByteBudget>(0)};
};

TEST_F(BlockListTest, GrowsAndShrinks) {
  for (const std::int64_t n : {0, 1, 7, 8, 63, 64, 65, 130, 200}) {
    BlockList list = list_of(n);
    EXPECT_EQ(list.size(), n);
    EXPECT_EQ(pool_.n_in_use(), n);
    expect_consistent(list);
    for (const std::int64_t rest : {n, n / 2, n / 3, std::int64_t{0}}) {
      list.truncate(rest);
      EXPECT_EQ(list.size(), rest);
      EXPECT_EQ(pool_.n_in_use(), rest);
      expect_consistent(list);
    }
  }
}

TEST_F(BlockListTest, EntriesLetGoStayEmpty) {
  BlockList list = list_of(200);
  for (std::int64_t b = 0; b < 150; ++b) {
    list.release(b);
    ASSERT_EQ(pool_.n_in_use(), 199 - b);
  }
  EXPECT_EQ(list.size(), 200);
  EXPECT_FALSE(list.at(0));
  EXPECT_FALSE(list.at(149));
  EXPECT_TRUE(list.at(150));
  expect_consistent(list);
  list.release(3);  // again
  list.truncate(140);
  EXPECT_EQ(pool_.n_in_use(), 0);
  list.push_back(pool_.take());
  EXPECT_EQ(list.size(), 141);
  expect_consistent(list);
}

TEST_F(BlockListTest, CopiesShareUntilTheyDiffer) {
  BlockList a = list_of(130);
  EXPECT_TRUE(a.owns(129));
  BlockList b = a;
  EXPECT_EQ(content(b), content(a));
  EXPECT_EQ(pool_.n_in_use(), 130);
  EXPECT_FALSE(a.owns(129) || b.owns(129));
  const auto before = content(a);
  b.replace(129, pool_.take());
  b.release(0);
  b.push_back(pool_.take());
  EXPECT_EQ(content(a), before);
  EXPECT_EQ(pool_.n_in_use(), 132);
  EXPECT_TRUE(b.owns(129));
  EXPECT_TRUE(a.owns(129));  // b's chunk is another now, and so is its block
  EXPECT_FALSE(a.owns(128));
  expect_consistent(a);
  expect_consistent(b);
  a = BlockList();
  EXPECT_TRUE(b.owns(128));
  EXPECT_EQ(pool_.n_in_use(), 130);
}

TEST_F(BlockListTest, AssignmentLetsTheOldOnesGo) {
  BlockList a = list_of(70), b = list_of(5);
  a = b;
  EXPECT_EQ(pool_.n_in_use(), 5);
  BlockList& same = a;
  a = same;
  EXPECT_EQ(a.size(), 5);
  a = std::move(b);
  EXPECT_EQ(content(a).size(), 5u);
  EXPECT_TRUE(a.owns(4));
}

TEST_F(BlockListTest, RandomProgramsAgainstVectors) {
  std::mt19937 random(7);
  std::vector<BlockList> lists(1);
  std::vector<std::vector<BlockRef>> expected(1);
  lists.reserve(4);
  for (int step = 0; step < 5000; ++step) {
    const std::size_t i = random() % lists.size();
    const std::int64_t n = lists[i].size();
    const auto any = [&](std::int64_t most) { return static_cast<std::int64_t>(random()) % most; };
    switch (random() % 6) {
      case 0:
        if (lists.size() < 4) {
          lists.push_back(lists[i]);
          expected.push_back(std::vector(expected[i]));
        } else {
          const std::size_t j = random() % 4;
          lists[j] = lists[i];
          expected[j] = std::vector(expected[i]);
        }
        break;
      case 1:
        if (n) {
          const std::int64_t b = any(n);
          lists[i].release(b);
          expected[i][static_cast<std::size_t>(b)] = BlockRef();
        }
        break;
      case 2: {
        const std::int64_t rest = std::max<std::int64_t>(0, n - any(90));
        lists[i].truncate(rest);
        expected[i].resize(static_cast<std::size_t>(rest));
        break;
      }
      default:
        for (std::int64_t k = any(40); k >= 0; --k) {
          const BlockRef block = pool_.take();
          lists[i].push_back(block);
          expected[i].push_back(block);
        }
    }
    for (std::size_t l = 0; l < lists.size(); ++l) {
      std::vector<const std::byte*> pointers;
      for (const BlockRef& block : expected[l]) pointers.push_back(block.data());
      ASSERT_EQ(content(lists[l]), pointers) << step;
    }
    ASSERT_NO_FATAL_FAILURE(expect_consistent(lists[i]));
  }
  lists.clear();
  expected.clear();
  EXPECT_EQ(pool_.n_in_use(), 0);
}

TEST_F(BlockListTest, ConcurrencyOfCopies) {
  const BlockList source = list_of(130);
  const auto before = content(source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, mine = source]() mutable {
      for (std::int64_t i = 0; i < 100; ++i) {
        BlockList copy = mine;
        copy.release(i);
        mine.replace(i, pool_.take());
        mine.push_back(pool_.take());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(content(source), before);
  EXPECT_EQ(pool_.n_in_use(), 130);
}

}  // namespace
}  // namespace mneme
