#include "mneme/generate/cache_options.h"

#include <gtest/gtest.h>

#include "mneme/models/config.h"

namespace mneme {
namespace {

CacheOptions options_of(const GenerateOptions& call) { return cache_options_of(resolve(call, {}, 5, 1)); }

std::string kind_of(const GenerateOptions& call) {
  const CacheShape shape{.layers = {{.n_heads = 1, .key_dim = 64, .value_dim = 64}}};
  return plan_cache(shape, options_of(call)).implementation;
}

TEST(CacheOptionsOf, EveryImplementation) {
  EXPECT_EQ(kind_of({.max_new_tokens = 3}), "dynamic");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "static"}), "static");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "offloaded"}), "offloaded");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "offloaded_static"}), "offloaded_static");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "quantized"}), "quantized");
  EXPECT_EQ(options_of({.max_new_tokens = 3, .cache_implementation = "static"}).max_cache_len, 8);
}

TEST(CacheOptionsOf, EveryCombination) {
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_config = {.backend = "kivi"}}), "quantized");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "static", .cache_config = {.nbits = 2}}),
            "quantized_static");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "quantized", .max_cache_len = 100}),
            "quantized_static");
  EXPECT_EQ(kind_of({.max_new_tokens = 3, .cache_implementation = "quantized", .cache_config = {.offloading = true}}),
            "quantized_offloaded");
  EXPECT_EQ(kind_of({.max_new_tokens = 3,
                     .cache_implementation = "offloaded_static",
                     .cache_config = {.backend = "int8", .max_cache_bytes = 1 << 20}}),
            "quantized_offloaded_static");
}

}  // namespace
}  // namespace mneme
