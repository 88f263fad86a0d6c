// A copy of a long cache costs microseconds and next to no memory, and appending moves what it appends.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MNEME_SANITIZED
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // NOLINT: what the runtime calls it
#endif

#include "mneme/cache/cache.h"
#include "tests/support/matrix.h"

namespace mneme {
namespace {

using testing::Matrix;

constexpr std::int64_t kLayers = 30;

/// SmolLM2's layers: 3 heads of 64 in bfloat16. Sanitizers get heads of 1, whose lists of blocks are the same.
CacheShape smollm2() {
#ifdef MNEME_SANITIZED
  const LayerShape layer{.n_heads = 1, .key_dim = 1, .value_dim = 1};
#else
  const LayerShape layer{.n_heads = 3, .key_dim = 64, .value_dim = 64};
#endif
  return {.layers = std::vector(kLayers, layer), .dtype = DType::kBFloat16};
}

/// Appends n tokens to every layer; no queries attend to them.
void append(Cache& cache, std::int64_t n) {
  const kernels::BlockLayout& layout = cache.layers()[0].attention().layout();
  Matrix rows(n, layout.n_heads * layout.key_dim), nothing(n, 0);
  std::ranges::fill(rows.values, 1.0f);
  const std::int64_t counts[] = {n}, row_starts[] = {0, n};
  cache.prepare(counts);
  for (CacheLayer& layer : cache.layers()) {
    layer.attention().attend(cache.workspace(), row_starts, {.keys = rows.rows(), .values = rows.rows()},
                             {.q = nothing.rows(), .n_heads = 0}, nothing.rows());
  }
}

std::int64_t allocated_bytes() {
#ifdef MNEME_SANITIZED
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
#endif
}

std::set<const Block*> blocks_of(const Cache& cache) {
  std::set<const Block*> blocks;
  for (const CacheLayer& layer : cache.layers()) {
    layer.each_block([&](const BlockRef& block) { blocks.insert(block.get()); });
  }
  return blocks;
}

TEST(ForkCost, OfThirtyTwoThousandTokens) {
  Cache cache(smollm2(), {});
  for (int i = 0; i < 32; ++i) append(cache, 1024);
  ASSERT_EQ(cache.seq_length(), 32768);
  const std::int64_t before = allocated_bytes();
  const Cache copy = cache.copy();
  EXPECT_LE(allocated_bytes() - before, 1 << 20);
  EXPECT_EQ(blocks_of(copy), blocks_of(cache));
#if defined(NDEBUG) && !defined(MNEME_SANITIZED)
  std::vector<double> microseconds;
  for (int i = 0; i < 101; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Cache another = cache.copy();
    const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - start;
    microseconds.push_back(passed.count());
  }
  std::ranges::sort(microseconds);
  EXPECT_LT(microseconds[50], 50.0);
#endif
}

TEST(ForkCost, AForkCopiesOneBlockALayerAndAppendingCopiesNone) {
  Cache cache(smollm2(), {});
  append(cache, 1000);
  const std::set<const Block*> before = blocks_of(cache);
  Cache fork = cache.copy();
  std::set<const Block*> all = before;
  for (int i = 0; i < 24; ++i) {  // to the end of the open block
    append(fork, 1);
    all.merge(blocks_of(fork));
    ASSERT_EQ(all.size(), before.size() + kLayers) << i;
  }
  append(fork, 1);
  all.merge(blocks_of(fork));
  EXPECT_EQ(all.size(), before.size() + 2 * kLayers);
  EXPECT_EQ(blocks_of(cache), before);
}

TEST(ForkCost, ScratchAndListsStayAsTheyAreWhileDecoding) {
  Cache cache(smollm2(), {});
  append(cache, 1000);
  for (int i = 0; i < 30; ++i) append(cache, 1);
  const std::int64_t scratch = cache.workspace().n_allocations();
  const std::int64_t before = allocated_bytes();
  for (int i = 0; i < 50; ++i) append(cache, 1);
  EXPECT_EQ(cache.workspace().n_allocations(), scratch);
  EXPECT_LE(allocated_bytes() - before, 0);
}

}  // namespace
}  // namespace mneme
