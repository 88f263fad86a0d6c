#include "mneme/generate/generator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using ::testing::HasSubstr;
using testing::left_padded;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

class GeneratorTest : public ::testing::Test {
 protected:
  GenerateOutput run(const Ids& prompt, const GenerateOptions& options, Cache* cache = nullptr) const {
    return model_->generate(tensor_of({prompt}), options, cache);
  }
  std::shared_ptr<const CausalLM> model_ = golden_model("llama");
};

TEST_F(GeneratorTest, NoNewTokensFillTheCacheOnly) {
  auto cache = DynamicCache(model_->config());
  const GenerateOutput output = run(some_ids(7), {.max_new_tokens = 0}, &cache);
  EXPECT_TRUE(output.new_tokens[0].empty());
  EXPECT_EQ(output.finish_reasons[0], "length");
  EXPECT_EQ(cache.seq_length(), 7);
  EXPECT_EQ(run(some_ids(7), {.max_new_tokens = 1}).new_tokens[0].size(), 1u);
}

TEST_F(GeneratorTest, PromptsThatCannotBeAreRefusedBeforeTheFirstToken) {
  const auto refused = [&](const Ids& prompt) {
    return thrown(ErrorKind::kInvalidArgument, [&] { run(prompt, {.max_new_tokens = 1}); });
  };
  EXPECT_THAT(refused({}), HasSubstr("empty prompt"));
  EXPECT_THAT(refused({512}), HasSubstr("512"));
  EXPECT_THAT(refused({-1}), HasSubstr("-1"));
  EXPECT_THAT(refused(some_ids(513)), HasSubstr("513"));
  EXPECT_EQ(run({1}, {.max_new_tokens = 1}).new_tokens[0].size(), 1u);  // a BOS alone is a prompt
}

TEST_F(GeneratorTest, MinNewTokensCountNewTokensOnly) {
  const Ids prompt = some_ids(60);
  const Ids free = run(prompt, {.max_new_tokens = 1}).new_tokens[0];
  EXPECT_EQ(run(prompt, {.max_new_tokens = 8, .eos_token_id = free}).new_tokens[0].size(), 1u);
  EXPECT_GE(run(prompt, {.max_new_tokens = 8, .min_new_tokens = 5, .eos_token_id = free}).new_tokens[0].size(), 5u);
}

TEST_F(GeneratorTest, WithoutEosTheLastVocabularyEntryCanBeChosen) {
  // Two prompts' greedy choices, whatever they are, must be the same with and without minimum when there is no eos.
  const Ids prompt = some_ids(9);
  EXPECT_EQ(run(prompt, {.max_new_tokens = 6, .min_new_tokens = 6, .eos_token_id = Ids{}}).new_tokens,
            run(prompt, {.max_new_tokens = 6, .eos_token_id = Ids{}}).new_tokens);
}

TEST_F(GeneratorTest, RowsThatEndedGetNoMoreTokensAndDisturbNobody) {
  const Rows prompts = {some_ids(5, 1), some_ids(9, 2)};
  const GenerateOutput free = model_->generate(left_padded(prompts), {.max_new_tokens = 10});
  const Ids eos = {free.new_tokens[0][0]};
  std::vector<int> n_calls(2);
  const GenerateOutput output =
      model_->generate(left_padded(prompts),
                       {.max_new_tokens = 10, .eos_token_id = eos, .on_token = [&](std::int64_t row, std::int64_t) {
                          ++n_calls[static_cast<std::size_t>(row)];
                        }});
  EXPECT_EQ(output.new_tokens[0], eos);
  EXPECT_EQ(n_calls[0], 1);
  const Ids alone = run(prompts[1], {.max_new_tokens = 10, .eos_token_id = eos}).new_tokens[0];
  EXPECT_EQ(output.new_tokens[1], alone);
  EXPECT_EQ(n_calls[1], static_cast<int>(alone.size()));
}

TEST_F(GeneratorTest, PadAndEosMayBeOneIdAndOccurInPrompts) {
  const Ids prompt = {5, 2, 9, 2};
  const Ids expected = run(prompt, {.max_new_tokens = 6, .eos_token_id = Ids{}, .pad_token_id = 0}).new_tokens[0];
  EXPECT_EQ(run(prompt, {.max_new_tokens = 6, .eos_token_id = Ids{}, .pad_token_id = 2}).new_tokens[0], expected);
  const GenerateOutput batch = model_->generate(left_padded({prompt, some_ids(9)}, /*pad=*/2),
                                                {.max_new_tokens = 6, .eos_token_id = Ids{}, .pad_token_id = 2});
  EXPECT_EQ(batch.new_tokens[0], expected);
}

TEST_F(GeneratorTest, TwentyPromptsGiveTheSameInBatchesOfAnySize) {
  Rows prompts, alone;
  const GenerateOptions options{.max_new_tokens = 6};
  for (std::uint64_t i = 0; i < 20; ++i) {
    prompts.push_back(some_ids(1 + static_cast<std::int64_t>(i * 7 % 23), i));
    alone.push_back(run(prompts.back(), options).new_tokens[0]);
  }
  for (const std::size_t size : {2u, 3u, 20u}) {
    Rows got;
    for (std::size_t first = 0; first < prompts.size(); first += size) {
      const Rows part(prompts.begin() + static_cast<std::ptrdiff_t>(first),
                      prompts.begin() + static_cast<std::ptrdiff_t>(std::min(first + size, prompts.size())));
      for (const Ids& row : model_->generate(left_padded(part), options).new_tokens) got.push_back(row);
    }
    EXPECT_EQ(got, alone) << "batches of " << size;
  }
}

/// The same seed, the same text: at every place of a batch, and on every kind of cache that keeps numbers as they are.
TEST_F(GeneratorTest, SampledRowsDoNotDependOnTheirBatchOrCache) {
  const Rows prompts = {some_ids(70, 1), some_ids(9, 2), some_ids(9, 3)};
  const GenerateOptions options{.max_new_tokens = 15, .do_sample = true, .temperature = 2.0, .top_k = 0, .seed = 3};
  const Rows expected = model_->generate(left_padded(prompts), options).new_tokens;
  for (const char* config : {"{}", R"({"backend": "int8"})", R"({"backend": "kivi", "nbits": 2})"}) {
    for (const char* kind : {"dynamic", "static", "offloaded", "offloaded_static"}) {
      SCOPED_TRACE(std::string(kind) + " " + config);
      GenerateOptions here = options;
      here.cache_implementation = kind;
      here.cache_config = CacheConfig::from_json(Json::parse(config));
      const Rows texts = model_->generate(left_padded(prompts), here).new_tokens;
      if (std::string(config) == "{}") {
        EXPECT_EQ(texts, expected);
      }
      for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(run(prompts[i], here).new_tokens[0], texts[i]);
      EXPECT_EQ(model_->generate(left_padded({prompts[2], prompts[0], prompts[1]}), here).new_tokens,
                Rows({texts[2], texts[0], texts[1]}));
      here.seed = 4;
      EXPECT_NE(model_->generate(left_padded(prompts), here).new_tokens, texts);
    }
  }
}

TEST_F(GeneratorTest, TheReportedSeedDrawsTheSameText) {
  GenerateOptions options{.max_new_tokens = 15, .do_sample = true, .temperature = 2.0, .top_k = 0};
  const GenerateOutput drawn = run(some_ids(5), options);
  options.seed = drawn.seed;
  EXPECT_EQ(run(some_ids(5), options).new_tokens, drawn.new_tokens);
}

TEST_F(GeneratorTest, LimitsOfSamplingAreGreedyAndAlwaysValid) {
  const Ids prompt = some_ids(5);
  const Ids greedy = run(prompt, {.max_new_tokens = 8}).new_tokens[0];
  const GenerateOptions limits[] = {{.temperature = 0.0}, {.temperature = 1e-8}, {.temperature = 1e-4}, {.top_k = 1},
                                    {.top_p = 0.0},       {.top_p = 1e-6},       {.min_p = 1.0}};
  for (GenerateOptions options : limits) {
    options.max_new_tokens = 8;
    options.do_sample = true;
    EXPECT_EQ(run(prompt, options).new_tokens[0], greedy);
  }
  for (const std::int64_t top_k : {0, 1000}) {
    const Ids ids = run(prompt, {.max_new_tokens = 8, .do_sample = true, .top_k = top_k}).new_tokens[0];
    for (const std::int64_t id : ids) {
      EXPECT_TRUE(id >= 0 && id < 512) << id;
    }
  }
}

TEST_F(GeneratorTest, EndsWhenAskedAndWhenTimeIsUp) {
  int n = 0;
  const GenerateOutput cancelled = run(some_ids(5), {.max_new_tokens = 50, .cancelled = [&] { return ++n == 3; }});
  EXPECT_EQ(cancelled.new_tokens[0].size(), 3u);
  EXPECT_EQ(cancelled.finish_reasons[0], "cancelled");
  const GenerateOutput late = run(some_ids(5), {.max_new_tokens = 50, .max_time = 1e-9});
  EXPECT_EQ(late.new_tokens[0].size(), 1u);
  EXPECT_EQ(late.finish_reasons[0], "time");
}

TEST_F(GeneratorTest, CanBeCancelledBetweenTwoChunksOfThePrompt) {
  auto cache = DynamicCache(model_->config());
  const Ids prompt = some_ids(70);
  int n = 0;
  const GenerateOutput cancelled =
      run(prompt,
          {.max_new_tokens = 5, .prefill_chunk_size = 16, .cancelled = [&] { return ++n == 2; }, .output_logits = true},
          &cache);
  EXPECT_TRUE(cancelled.new_tokens[0].empty());
  EXPECT_EQ(cancelled.finish_reasons[0], "cancelled");
  EXPECT_FALSE(cancelled.prompt_logits.defined());
  EXPECT_EQ(cache.seq_length(), 32);  // what was computed is kept, and good
  EXPECT_EQ(run(prompt, {.max_new_tokens = 5}, &cache).new_tokens, run(prompt, {.max_new_tokens = 5}).new_tokens);
}

/// Whoever may cancel is asked several times a second, and what is read is the same.
TEST_F(GeneratorTest, APromptThatMayBeCancelledBeginsWithASmallPiece) {
  const Ids prompt = some_ids(400);
  std::vector<std::int64_t> done;
  GenerateOptions options{.max_new_tokens = 4, .prefill_chunk_size = 160};
  options.on_prefill = [&](auto n, auto) { done.push_back(n); };
  const auto expected = run(prompt, options).new_tokens;
  EXPECT_EQ(done, Ids({0, 160, 320, 400}));
  done.clear();
  options.cancelled = [] { return false; };
  EXPECT_EQ(run(prompt, options).new_tokens, expected);
  EXPECT_EQ(done[1], 16);  // the speed is not known yet
  for (std::size_t i = 2; i + 1 < done.size(); ++i) {
    EXPECT_GE(done[i] - done[i - 1], 16);
    EXPECT_LE(done[i] - done[i - 1], 160);
  }
}

TEST_F(GeneratorTest, TellsHowMuchOfThePromptsIsRead) {
  std::vector<std::int64_t> done;
  const GenerateOptions options{.max_new_tokens = 1, .prefill_chunk_size = 8, .on_prefill = [&](auto n, auto total) {
                                  EXPECT_EQ(total, 25);
                                  done.push_back(n);
                                }};
  model_->generate(left_padded({some_ids(20), some_ids(5)}), options);
  EXPECT_EQ(done, Ids({0, 13, 21, 25}));
}

TEST_F(GeneratorTest, StopStringsEndTextsWithTheTokenThatCompletesThem) {
  const Ids prompt = some_ids(5);
  const Ids free = run(prompt, {.max_new_tokens = 10}).new_tokens[0];
  GenerateOptions options{.max_new_tokens = 10, .stop_strings = {fmt::format("<{}>", free[4])}};
  options.tokenizer_decode = [](const Ids& ids) {
    std::string text;
    for (const std::int64_t id : ids) text += fmt::format("<{}>", id);
    return text;
  };
  const GenerateOutput output = run(prompt, options);
  EXPECT_EQ(output.new_tokens[0], Ids(free.begin(), std::find(free.begin(), free.end(), free[4]) + 1));
  EXPECT_EQ(output.finish_reasons[0], "stop");
  options.min_new_tokens = 10;  // keeps an eos away and nothing else
  EXPECT_EQ(run(prompt, options).new_tokens, output.new_tokens);
  options.stop_strings = {fmt::format("<{}><{}>", prompt[4], free[0])};
  EXPECT_EQ(run(prompt, options).new_tokens[0].size(), 1u);
  options.stop_strings = {fmt::format("<{}>", prompt[4])};
  if (std::find(free.begin(), free.end(), prompt[4]) == free.end()) {
    EXPECT_EQ(run(prompt, options).finish_reasons[0], "length");
  }
}

TEST_F(GeneratorTest, AFullStaticCacheIsRefusedBeforeTheFirstToken) {
  auto cache = StaticCache(model_->config(), {.max_cache_len = 16});
  const std::string message =
      thrown(ErrorKind::kInvalidArgument, [&] { run(some_ids(10), {.max_new_tokens = 50}, &cache); });
  EXPECT_THAT(message, HasSubstr("10 + 50"));
  EXPECT_THAT(message, HasSubstr("16"));
  EXPECT_EQ(cache.seq_length(), 0);
  EXPECT_EQ(run(some_ids(10), {.max_new_tokens = 6}, &cache).new_tokens[0].size(), 6u);
}

// Contracts on the caller's cache.

TEST_F(GeneratorTest, AChatOverOneCacheComputesOnlyWhatIsNew) {
  for (const char* name : {"llama", "mistral_window8"}) {
    const auto model = golden_model(name);
    auto cache = DynamicCache(model->config());
    Ids history;
    for (std::uint64_t turn = 0; turn < 5; ++turn) {
      for (const std::int64_t id : some_ids(11, turn)) history.push_back(id);
      const auto held = cache.seq_length();
      const GenerateOutput warm = model->generate(tensor_of({history}), {.max_new_tokens = 9}, &cache);
      const GenerateOutput cold = model->generate(tensor_of({history}), {.max_new_tokens = 9});
      EXPECT_EQ(warm.new_tokens, cold.new_tokens) << name << ", turn " << turn;
      EXPECT_EQ(warm.cached_tokens, held);
      history.insert(history.end(), warm.new_tokens[0].begin(), warm.new_tokens[0].end());
      EXPECT_EQ(cache.seq_length(), std::ssize(history) - 1);
    }
  }
}

TEST_F(GeneratorTest, ACacheMustHoldLessThanThePromptAndAsManySequences) {
  auto cache = DynamicCache(model_->config());
  run(some_ids(10), {.max_new_tokens = 3}, &cache);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { run(some_ids(12), {.max_new_tokens = 1}, &cache); }),
              HasSubstr("holds 12 tokens, the prompt has 12"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       model_->generate(tensor_of({some_ids(20), some_ids(20)}), {.max_new_tokens = 1}, &cache);
                     }),
              HasSubstr("2 prompts"));
  EXPECT_EQ(cache.seq_length(), 12);
}

TEST_F(GeneratorTest, ACallbackThatThrowsEndsTheCallAndFreesTheCache) {
  auto cache = DynamicCache(model_->config());
  const Ids prompt = some_ids(5);
  const auto failing = [](std::int64_t, std::int64_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(run(prompt, {.max_new_tokens = 5, .on_token = failing}, &cache), std::runtime_error);
  cache.reset();
  EXPECT_EQ(run(prompt, {.max_new_tokens = 5}, &cache).new_tokens, run(prompt, {.max_new_tokens = 5}).new_tokens);
}

}  // namespace
}  // namespace mneme
