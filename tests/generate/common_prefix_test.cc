#include "mneme/generate/common_prefix.h"

#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using testing::some_ids;
using testing::tensor_of;
using Ids = std::vector<std::int64_t>;

// From public reports (A10): a text that is the cached one, one that goes on, one that parts from it.
class CommonPrefixTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CommonPrefixTest, ContinuesFromCachesThatAreLongerShorterOrOfAnotherText) {
  const auto model = golden_model(GetParam());
  const Ids cached = some_ids(80);
  const auto beginning = [&](std::int64_t n, const Ids& rest) {
    Ids text(cached.begin(), cached.begin() + n);
    text.insert(text.end(), rest.begin(), rest.end());
    return text;
  };
  const Ids texts[] = {cached,
                       beginning(80, some_ids(9, 2)),
                       beginning(77, some_ids(9, 3)),
                       beginning(40, {}),
                       beginning(1, some_ids(5, 4)),
                       some_ids(30, 5)};
  for (const bool recording : {false, true}) {
    for (const CacheConfig& config : {CacheConfig{}, CacheConfig{.backend = "int8", .residual_length = 0}}) {
      if (config.backend && GetParam() == "mamba") continue;
      const GenerateOptions options{.max_new_tokens = 6, .cache_config = config};
      for (const Ids& text : texts) {
        Cache cache(model->config(), {.quantized = config.backend.has_value(), .config = config});
        if (recording) cache.activate_past_recording();
        model->forward({.input_ids = tensor_of({cached})}, &cache);
        const std::int64_t kept = keep_common_prefix(cache, cached, text);
        EXPECT_EQ(cache.seq_length(), kept);
        EXPECT_LT(kept, std::ssize(text));
        const GenerateOutput warm = model->generate(tensor_of({text}), {.max_new_tokens = 6}, &cache);
        EXPECT_EQ(warm.cached_tokens, kept);
        EXPECT_EQ(warm.new_tokens, model->generate(tensor_of({text}), options).new_tokens);
        if (recording && &text != &texts[5]) {
          EXPECT_GT(kept, 0);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CommonPrefixTest, ::testing::Values("llama", "mistral_window8", "mamba"),
                         [](const auto& test) { return test.param; });

TEST(CommonPrefixErrorsTest, IdsMustBeThoseThatAreHeld) {
  const auto model = golden_model("llama");
  DynamicCache cache(model->config());
  EXPECT_EQ(keep_common_prefix(cache, {}, Ids{1, 2}), 0);
  model->forward({.input_ids = tensor_of({{1, 2, 3}})}, &cache);
  testing::thrown(ErrorKind::kInvalidArgument, [&] { keep_common_prefix(cache, Ids{1, 2}, Ids{1, 2}); });
  EXPECT_EQ(cache.seq_length(), 3);
}

}  // namespace
}  // namespace mneme
