// A copy of a long cache costs microseconds and next to no memory, and appending moves what it appends.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

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

/// Appends counts[i] tokens to sequence i of every layer; no queries attend to them.
void append(Cache& cache, std::span<const std::int64_t> counts, std::span<const std::int64_t> row_starts) {
  const kernels::BlockLayout& layout = cache.layers()[0].attention().layout();
  Matrix rows(row_starts.back(), layout.n_heads * layout.key_dim);
  std::ranges::fill(rows.values, 1.0f);
  cache.prepare(counts);
  for (CacheLayer& layer : cache.layers()) {
    layer.attention().append(cache.workspace(), row_starts, {.keys = rows.rows(), .values = rows.rows()});
  }
}

/// n tokens to the only sequence.
void append(Cache& cache, std::int64_t n) {
  const std::int64_t counts[] = {n}, row_starts[] = {0, n};
  append(cache, counts, row_starts);
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

// Beams.

constexpr std::int64_t kBeams = 40, kFewLayers = 4;

/// What 40 beams of a few layers of SmolLM2 hold.
struct Beams {
  explicit Beams(const CacheOptions& options)
      : cache({.layers = std::vector(kFewLayers, LayerShape{.n_heads = 3, .key_dim = 64, .value_dim = 64}),
               .dtype = DType::kBFloat16},
              options) {}

  Cache cache;

  /// One token to each.
  void step() {
    std::vector<std::int64_t> row_starts(kBeams + 1);
    std::iota(row_starts.begin(), row_starts.end(), 0);
    append(cache, std::vector<std::int64_t>(kBeams, 1), row_starts);
  }

  std::int64_t tail_bytes() const { return kFewLayers * cache.layers()[0].attention().layout().block_bytes(); }
  /// Of the blocks that are held, each once.
  std::int64_t bytes_held() const {
    std::int64_t total = 0;
    for (const Block* block : blocks_of(cache)) total += block->pool->block_bytes();
    return total;
  }
  /// Of all that the pools of these blocks took.
  std::int64_t bytes_taken() const {
    std::set<const BlockPool*> pools;
    for (const Block* block : blocks_of(cache)) pools.insert(block->pool);
    std::int64_t total = 0;
    for (const BlockPool* pool : pools) total += pool->capacity() * pool->block_bytes();
    return total;
  }
  std::size_t n_sealed_blocks(std::size_t layer) const {
    std::set<const Block*> blocks;
    const KvLayer& attention = cache.layers()[layer].attention();
    for (std::int64_t i = 0; i < attention.n_sequences(); ++i)
      attention.sequence(i).sealed().each_block([&](const BlockRef& block) { blocks.insert(block.get()); });
    return blocks.size();
  }
};

std::vector<CacheOptions> beam_options() {
  std::vector<CacheOptions> all;
  for (const bool is_static : {false, true}) {
    for (const CacheOptions& options :
         {CacheOptions{},
          {.quantized = true, .config = {.backend = "int8"}},
          {.quantized = true, .config = {.backend = "kivi", .nbits_key = 4, .nbits_value = 2}}}) {
      all.push_back(options);
      if (is_static) all.back().max_cache_len = 1100;
    }
  }
  return all;
}

TEST(BeamCost, FortyBeamsOverAThousandTokensTakeThePromptOnceAndTheirTails) {
  for (const CacheOptions& options : beam_options()) {
    Beams beams(options);
    SCOPED_TRACE(beams.cache.implementation());
    append(beams.cache, 1000);
    const std::int64_t one = beams.bytes_held(), one_taken = beams.bytes_taken(), tails = kBeams * beams.tail_bytes();
    beams.cache.repeat_interleave(kBeams);
    EXPECT_EQ(beams.bytes_held(), one);
    const std::int64_t reserved = beams.bytes_taken();
    std::mt19937 random(1);
    for (int step = 0; step < 20; ++step) {
      beams.step();
      ASSERT_EQ(beams.bytes_held(), one - beams.tail_bytes() + tails) << step;
      if (options.max_cache_len) {
        ASSERT_EQ(beams.bytes_taken(), reserved);  // nothing but what was taken at first
      } else {
        ASSERT_LE(beams.bytes_taken(), one_taken + one / 2 + tails);
        ASSERT_EQ(beams.cache.n_bytes(), beams.bytes_held());
      }
      std::vector<std::int64_t> parents;
      for (std::int64_t i = 0; i < kBeams; ++i) parents.push_back(static_cast<std::int64_t>(random() % kBeams));
      beams.cache.reorder(parents);
    }
    EXPECT_LE(beams.bytes_held(), one + one / 2 + tails);
    EXPECT_EQ(beams.cache.lengths(), std::vector<std::int64_t>(kBeams, 1020));
  }
}

// The residual of 128 tokens ends in a block of the prompt, which is encoded while 40 sequences share it.
TEST(BeamCost, ASharedBlockIsSealedOnceForAllOfThem) {
  for (const char* backend : {"kivi", "hqq"}) {
    for (const bool offloading : {false, true}) {
      Beams beams({.quantized = true, .config = {.backend = backend, .offloading = offloading}});
      append(beams.cache, 1010);
      EXPECT_EQ(beams.n_sealed_blocks(0), 13u);
      beams.cache.repeat_interleave(kBeams);
      for (int step = 0; step < 20; ++step) beams.step();
      for (std::size_t l = 0; l < kFewLayers; ++l) EXPECT_EQ(beams.n_sealed_blocks(l), 14u);
    }
  }
}

}  // namespace
}  // namespace mneme
