#include "mneme/cache/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <random>

#include "mneme/cache/presets.h"
#include "tests/support/cache_kinds.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using testing::CacheKind;
using ::testing::HasSubstr;
using testing::layer_of;
using testing::TempFolder;
using testing::thrown;

using Ids = std::vector<std::int64_t>;

/// Keys and values of a token, a function of its id and place alone: what a model would compute for a prompt.
void feed(Cache& cache, std::span<const std::int64_t> ids) {
  for (std::size_t l = 0; l < cache.layers().size(); ++l) {
    const std::int64_t first = cache.layers()[l].n_sequences() ? cache.layers()[l].length(0) : 0;
    const kernels::BlockLayout& layout = cache.layers()[l].attention().layout();
    const auto tokens = [&](std::int64_t dim) {
      at::Tensor t = at::empty({1, layout.n_heads, std::ssize(ids) - first, dim}, at::kFloat);
      for (std::int64_t i = 0; i < t.size(2); ++i) {
        const auto id = static_cast<double>(ids[static_cast<std::size_t>(first + i)]);
        t.select(2, i).copy_(
            at::sin(at::arange(layout.n_heads * dim, at::kFloat) * 0.37 + id + 0.1 * static_cast<double>(first + i))
                .view({1, layout.n_heads, dim}));
      }
      return t;
    };
    cache.update(tokens(layout.key_dim), tokens(layout.value_dim), static_cast<std::int64_t>(l));
  }
}

Cache made(const CacheKind& kind, const Ids& ids) {
  Cache cache = kind.make();
  feed(cache, ids);
  return cache;
}

void expect_equal(const Cache& a, const Cache& b) {
  ASSERT_EQ(a.lengths(), b.lengths());
  for (std::size_t l = 0; l < a.layers().size(); ++l) {
    EXPECT_TRUE(at::equal(a.layers()[l].keys(), b.layers()[l].keys())) << "layer " << l;
    EXPECT_TRUE(at::equal(a.layers()[l].values(), b.layers()[l].values())) << "layer " << l;
    EXPECT_EQ(a.layers()[l].attention().sequence(0).n_sealed(), b.layers()[l].attention().sequence(0).n_sealed());
  }
}

Ids iota(std::int64_t n, std::int64_t from = 0) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

const CacheKind kFull{.layers = {layer_of(Retention::all()), layer_of(Retention::all(), 24)}};

TEST(PrefixTree, FindsTheLongestBeginning) {
  PrefixTree tree({.max_bytes = 1 << 30});
  EXPECT_FALSE(tree.find(iota(10)));
  EXPECT_TRUE(tree.insert(iota(100), made(kFull, iota(100))));
  Ids other = iota(100);
  other[70] = 5;
  EXPECT_EQ(tree.find(other)->length, 70);
  EXPECT_EQ(tree.find(iota(300))->length, 100);
  EXPECT_EQ(tree.find(iota(100))->length, 99);  // one is left to compute
  EXPECT_EQ(tree.find(iota(30))->length, 29);
  EXPECT_FALSE(tree.find(iota(5, 3)));
  EXPECT_FALSE(tree.find(iota(1)));
  EXPECT_FALSE(tree.find({}));
  auto hit = tree.find(other);
  feed(hit->cache, other);
  expect_equal(hit->cache, made(kFull, other));
}

TEST(PrefixTree, EntriesShareBlocks) {
  PrefixTree tree({.max_bytes = 1 << 30});
  Cache cache = made(kFull, iota(640));
  tree.insert(iota(640), cache);
  const std::int64_t one = tree.n_bytes();
  for (int i = 1; i <= 10; ++i) {
    Ids ids = iota(640);
    for (int j = 0; j < 10; ++j) ids.push_back(1000 * i + j);
    Cache fork = cache.copy();
    feed(fork, ids);
    tree.insert(ids, fork);
  }
  EXPECT_EQ(tree.size(), 11);
  EXPECT_EQ(tree.n_bytes(), one + 10 * one / 10);  // a tail each: one block of ten
  tree.clear();
  EXPECT_EQ(tree.n_bytes(), 0);
  EXPECT_FALSE(tree.find(iota(640)));
}

// Every kind of layer: what is found goes on as a cold run would.
TEST(PrefixTree, AHitEqualsAColdRun) {
  std::mt19937 random(1);
  testing::for_each_kind([&](const CacheKind& kind) {
    PrefixTree tree({.max_bytes = 1 << 30});
    for (int round = 0; round < 6; ++round) {
      Ids ids = iota(20 + static_cast<std::int64_t>(random() % 250));
      if (round % 2) {
        for (std::size_t i = random() % ids.size(); i < ids.size(); ++i) ids[i] += 1000 * round;
      }
      auto hit = tree.find(ids);
      Cache cache = hit ? std::move(hit->cache) : kind.make();
      ASSERT_EQ(cache.seq_length(), hit ? hit->length : 0);
      feed(cache, ids);
      ASSERT_NO_FATAL_FAILURE(expect_equal(cache, made(kind, ids)));
      tree.insert(ids, cache);
    }
    Ids longer = iota(20);
    longer.push_back(77);
    EXPECT_TRUE(tree.insert(longer, made(kind, longer)));
    longer.push_back(78);
    EXPECT_EQ(tree.find(longer)->length, 21);  // an entry's end always serves
  });
}

TEST(PrefixTree, TheLeastRecentlyUsedGoes) {
  const CacheKind kind{.layers = {layer_of(Retention::all())}};
  const std::int64_t block = kind.make().layers()[0].attention().layout().block_bytes();
  PrefixTree tree({.max_bytes = 3 * block});
  for (const std::int64_t from : {0, 1000, 2000}) tree.insert(iota(64, from), made(kind, iota(64, from)));
  EXPECT_EQ(tree.n_bytes(), 3 * block);
  EXPECT_TRUE(tree.find(iota(64, 0)));
  tree.insert(iota(64, 3000), made(kind, iota(64, 3000)));
  EXPECT_EQ(tree.size(), 3);
  EXPECT_FALSE(tree.find(iota(64, 1000)));
  EXPECT_TRUE(tree.find(iota(64, 0)) && tree.find(iota(64, 2000)) && tree.find(iota(64, 3000)));
  EXPECT_FALSE(tree.insert(iota(640, 9000), made(kind, iota(640, 9000))));  // too large for all of it
  EXPECT_LE(tree.n_bytes(), 3 * block);
}

TEST(PrefixTree, SpillsInsteadOfForgetting) {
  const TempFolder folder;
  const std::int64_t block = kFull.make().layers()[0].attention().layout().block_bytes();
  PrefixTree tree({.max_bytes = 3 * block, .spill_folder = folder.path(), .max_spill_bytes = 40 * block});
  for (const std::int64_t from : {0, 1000, 2000}) tree.insert(iota(128, from), made(kFull, iota(128, from)));
  EXPECT_EQ(tree.size(), 3);
  EXPECT_GT(tree.n_bytes_spilled(), 0);
  EXPECT_LE(tree.n_bytes(), 3 * block);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // the files have no names
  for (const std::int64_t from : {0, 1000, 2000}) {
    auto hit = tree.find(iota(200, from));
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->length, 128);
    feed(hit->cache, iota(200, from));
    ASSERT_NO_FATAL_FAILURE(expect_equal(hit->cache, made(kFull, iota(200, from))));
  }
  for (std::int64_t i = 3; i < 40; ++i) tree.insert(iota(128, 1000 * i), made(kFull, iota(128, 1000 * i)));
  EXPECT_LE(tree.n_bytes_spilled(), 40 * block);
}

TEST(PrefixTree, RefusesWhatDoesNotFit) {
  PrefixTree tree({.max_bytes = 1 << 20});
  const Cache cache = made(kFull, iota(10));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { tree.insert(iota(9), cache); }),
              AllOf(HasSubstr("9 ids"), HasSubstr("10 tokens")));
  thrown(ErrorKind::kOutOfRange, [&] { tree.insert(iota(10), cache, 1); });
  thrown(ErrorKind::kInvalidArgument, [] { PrefixTree({.max_bytes = 0}); });
  thrown(ErrorKind::kInvalidArgument, [] { PrefixTree({.max_bytes = 1, .max_spill_bytes = 0}); });
}

}  // namespace
}  // namespace mneme
