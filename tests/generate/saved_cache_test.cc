#include "mneme/generate/saved_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "mneme/generate/common_prefix.h"
#include "tests/generate/golden.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using ::testing::HasSubstr;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

class SavedCacheTest : public ::testing::Test {
 protected:
  /// Keeps a text of 100 tokens and 20 new ones; returns all of it.
  Ids keep(Cache cache) const {
    Ids text = some_ids(100);
    const GenerateOutput output = model_->generate(tensor_of({text}), kLong, &cache);
    text.insert(text.end(), output.new_tokens[0].begin(), output.new_tokens[0].end());
    save_cache(path_, cache, text, *model_);
    return text;
  }
  const GenerateOptions kLong{.max_new_tokens = 20, .eos_token_id = Ids{}};
  const std::shared_ptr<const CausalLM> model_ = golden_model("llama");
  const testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/text.cache";
};

TEST_F(SavedCacheTest, GoesOnAsIfNothingHadHappened) {
  Ids text = keep(DynamicCache(model_->config()));
  SavedCache saved = load_cache(path_, *golden_model("llama"), {});
  EXPECT_EQ(saved.ids, Ids(text.begin(), text.end() - 1));
  text.push_back(7);
  const GenerateOutput warm = model_->generate(tensor_of({text}), kLong, &saved.cache);
  EXPECT_EQ(warm.cached_tokens, 119);
  EXPECT_EQ(warm.new_tokens, model_->generate(tensor_of({text}), kLong).new_tokens);
}

TEST_F(SavedCacheTest, OfAnotherModelArithmeticOrKindIsRefused) {
  keep(QuantizedCache(model_->config(), {.backend = "int8"}));
  const auto refused = [&](const CausalLM& model, const GenerateOptions& options) {
    return thrown(ErrorKind::kInvalidArgument, [&] { load_cache(path_, model, options); });
  };
  EXPECT_THAT(refused(*golden_model("llama", at::kBFloat16), {}), HasSubstr("saved for model"));
  EXPECT_THAT(refused(*golden_model("llama_rope3"), {}), HasSubstr("saved for"));
  EXPECT_THAT(refused(*model_, {.cache_implementation = "offloaded"}), HasSubstr("quantized cache of other options"));
  EXPECT_THAT(refused(*model_, {.cache_config = {.backend = "fp8"}}), HasSubstr("quantized cache of other options"));
  EXPECT_EQ(load_cache(path_, *model_, {.cache_config = {.backend = "int8"}}).cache.seq_length(), 119);
  // Of the options those count that say what a cache is.
  const GenerateOptions texts{.min_new_tokens = 99, .stop_strings = {"x"}, .cache_config = {.backend = "int8"}};
  EXPECT_EQ(load_cache(path_, *model_, texts).cache.seq_length(), 119);
  EXPECT_EQ(load_cache(path_, *model_, {}).cache.implementation(), "quantized");
}

TEST_F(SavedCacheTest, OfSeveralSequencesOrWithoutIdsIsRefused) {
  DynamicCache cache(model_->config());
  model_->generate(tensor_of({some_ids(9, 1), some_ids(9, 2)}), kLong, &cache);
  cache.save(path_, {.model = model_->config().fingerprint});
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { load_cache(path_, *model_, {}); }),
              HasSubstr("2 sequences and the ids of 0"));
  thrown(ErrorKind::kIo, [&] { load_cache(path_ + ".none", *model_, {}); });
}

}  // namespace
}  // namespace mneme
