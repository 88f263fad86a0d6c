// What a token costs, by the process's own memory: its growth from 4,096 to 16,384 tokens against the formula that
// `mneme inspect` shows, and against bfloat16.
#include <gtest/gtest.h>

#include <string>

#include "mneme/cache/cache.h"
#include "tests/support/matrix.h"
#include "tests/support/process_memory.h"

namespace mneme {
namespace {

using testing::Matrix;
using testing::resident_bytes;

struct Kind {
  const char* name;
  double most_of_bfloat16;
  CacheOptions options;
};

std::vector<Kind> kinds() {
  const auto codec = [](CacheConfig config) { return CacheOptions{.quantized = true, .config = std::move(config)}; };
  const auto kivi = [&](std::int64_t keys, std::int64_t values) {
    return codec({.backend = "kivi", .nbits_key = keys, .nbits_value = values});
  };
  return {{"bfloat16", 1.0, {}},
          {"int8", 0.53, codec({.backend = "int8"})},
          {"fp8", 0.53, codec({.backend = "fp8"})},
          {"quanto4", 0.29, codec({.backend = "quanto"})},
          {"hqq4", 0.29, codec({.backend = "hqq", .axis_key = 1, .axis_value = 1})},
          {"kivi4+4", 0.32, kivi(4, 4)},
          {"kivi4+2", 0.26, kivi(4, 2)},
          {"kivi3+2", 0.23, kivi(3, 2)},
          {"kivi2+2", 0.19, kivi(2, 2)}};
}

constexpr std::int64_t kLayers = 8, kHeads = 3, kDim = 64, kChunk = 1024;

double bytes_at(Cache& cache, std::int64_t n_tokens) {
  Matrix rows = Matrix::random(kChunk, kHeads * kDim, 1), nothing(kChunk, 0);
  while (cache.seq_length() < n_tokens) {
    const std::int64_t counts[] = {kChunk}, row_starts[] = {0, kChunk};
    cache.prepare(counts);
    for (CacheLayer& layer : cache.layers())
      layer.attention().append(cache.workspace(), row_starts, {.keys = rows.rows(), .values = rows.rows()});
  }
  return resident_bytes();
}

TEST(ProcessMemory, GrowsByWhatTheFormulaSays) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  const CacheShape shape{
      .layers = std::vector(kLayers, LayerShape{.n_heads = kHeads, .key_dim = kDim, .value_dim = kDim}),
      .dtype = DType::kBFloat16};
  const double bfloat16 = kLayers * kHeads * 2 * kDim * 2;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    Cache cache(shape, kind.options);
    double formula = 0;
    for (const LayerPlan& layer : cache.plan().layers) formula += layer.bytes_per_token();
    EXPECT_EQ(cache.plan().layers[0].codec_name(), kind.name);
    EXPECT_LE(formula, kind.most_of_bfloat16 * bfloat16);
    const double at_4096 = bytes_at(cache, 4096), at_16384 = bytes_at(cache, 16384);
    EXPECT_NEAR((at_16384 - at_4096) / 12288 / formula, 1.0, 0.03);
  }
}

}  // namespace
}  // namespace mneme
