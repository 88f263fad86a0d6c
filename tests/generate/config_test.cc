#include "mneme/generate/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mneme/base/log.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

GenerationSettings resolved(const GenerateOptions& call, const Json& config = Json::object(), std::int64_t prompt = 5) {
  return resolve(call, GenerationConfig::from_json(config, "test"), prompt, 1);
}

TEST(GenerationConfigTest, DefaultsAreTransformers) {
  const GenerationSettings s = resolved({});
  EXPECT_EQ(s.max_new_tokens, 15);  // max_length 20
  EXPECT_FALSE(s.do_sample);
  EXPECT_EQ(s.options.top_k, 50);
  EXPECT_EQ(s.num_beams, 1);
  EXPECT_EQ(s.num_return_sequences, 1);
  EXPECT_EQ(s.length_penalty, 1.0);
  EXPECT_EQ(s.early_stopping, EarlyStopping::kFalse);
  EXPECT_TRUE(s.use_cache);
  EXPECT_EQ(s.cache_implementation, "dynamic");
  EXPECT_EQ(s.eos_token_id, Ids());
}

TEST(GenerationConfigTest, TheCallGoesBeforeTheFileAndTheFileBeforeTheDefaults) {
  const Json file = {
      {"max_new_tokens", 7}, {"do_sample", true}, {"temperature", 0.6},        {"top_k", 20},
      {"top_p", 0.9},        {"min_p", 0.1},      {"repetition_penalty", 1.1}, {"eos_token_id", {1, 106}},
      {"pad_token_id", 3}};
  const GenerationSettings s = resolved({}, file);
  EXPECT_EQ(s.max_new_tokens, 7);
  EXPECT_TRUE(s.do_sample);
  EXPECT_EQ(s.options.temperature, 0.6);
  EXPECT_EQ(s.options.top_k, 20);
  EXPECT_EQ(s.options.top_p, 0.9);
  EXPECT_EQ(s.options.min_p, 0.1);
  EXPECT_EQ(s.options.repetition_penalty, 1.1);
  EXPECT_EQ(s.eos_token_id, Ids({1, 106}));
  EXPECT_EQ(s.pad_token_id, 3);
  const GenerationSettings called =
      resolved({.max_new_tokens = 2, .do_sample = false, .temperature = 1.5, .top_k = 0, .eos_token_id = Ids{}}, file);
  EXPECT_EQ(called.max_new_tokens, 2);
  EXPECT_FALSE(called.do_sample);
  EXPECT_EQ(called.options.temperature, 1.5);
  EXPECT_EQ(called.options.top_k, 0);
  EXPECT_EQ(called.eos_token_id, Ids());
}

TEST(GenerationConfigTest, MaxNewTokensWinsOverMaxLengthOfTheSameOrigin) {
  EXPECT_EQ(resolved({.max_new_tokens = 3, .max_length = 100}).max_new_tokens, 3);
  EXPECT_EQ(resolved({.max_length = 100}, {{"max_new_tokens", 7}}).max_new_tokens, 95);
  EXPECT_EQ(resolved({}, {{"max_length", 50}}).max_new_tokens, 45);
}

TEST(GenerationConfigTest, APromptWithoutRoomNamesBothNumbers) {
  const std::string message = thrown(ErrorKind::kInvalidArgument, [] { resolved({}, Json::object(), 20); });
  EXPECT_THAT(message, HasSubstr("prompt of 20"));
  EXPECT_THAT(message, HasSubstr("max_length = 20"));
}

TEST(GenerationConfigTest, ASeedIsDrawnUnlessGiven) {
  EXPECT_EQ(resolved({.seed = 5}).seed, 5u);
  EXPECT_NE(resolved({}).seed, resolved({}).seed);
  EXPECT_LT(resolved({}).seed, std::uint64_t{1} << 53);  // what a JSON reader keeps exactly
}

TEST(GenerationConfigTest, ValuesOutOfRangeAreRefusedByName) {
  const double nan = std::nan("");
  const std::pair<const char*, GenerateOptions> cases[] = {
      {"temperature", {.temperature = -0.1}},
      {"temperature", {.temperature = nan}},
      {"temperature", {.temperature = INFINITY}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = 1.01}},
      {"top_p", {.top_p = nan}},
      {"min_p", {.min_p = -0.1}},
      {"repetition_penalty", {.repetition_penalty = 0.0}},
      {"repetition_penalty", {.repetition_penalty = nan}},
      {"max_new_tokens", {.max_new_tokens = -1}},
      {"max_length", {.max_length = 0}},
      {"max_length", {.max_length = INT64_MAX}},
      {"min_new_tokens", {.min_new_tokens = -1}},
      {"min_new_tokens", {.max_new_tokens = 4, .min_new_tokens = 5}},
      {"max_time", {.max_time = 0.0}},
      {"max_time", {.max_time = nan}},
      {"min_length", {.min_length = -1}},
      {"num_beams", {.num_beams = 0}},
      {"num_beams", {.num_beams = 5000}},
      {"num_return_sequences", {.num_return_sequences = 0}},
      {"num_return_sequences = 3", {.num_return_sequences = 3}},  // greedy
      {"num_beams = 2", {.num_beams = 2, .num_return_sequences = 3}},
      {"length_penalty", {.num_beams = 2, .length_penalty = nan}},
      {"top_h", {.top_h = 0.0}},
      {"top_h", {.top_h = 1.1}},
      {"typical_p", {.typical_p = 0.0}},
      {"typical_p", {.typical_p = nan}},
      {"epsilon_cutoff", {.epsilon_cutoff = -1.0}},
      {"eta_cutoff", {.eta_cutoff = 1.5}},
      {"encoder_repetition_penalty", {.encoder_repetition_penalty = 0.0}},
      {"no_repeat_ngram_size", {.no_repeat_ngram_size = -1}},
      {"encoder_no_repeat_ngram_size", {.encoder_no_repeat_ngram_size = -1}},
      {"bad_words_ids", {.bad_words_ids = std::vector<Ids>{{}}}},
      {"bad_words_ids", {.bad_words_ids = std::vector<Ids>{{3, -1}}}},
      {"sequence_bias", {.sequence_bias = std::vector<SequenceBias>{{Ids{}, 1.0}}}},
      {"sequence_bias", {.sequence_bias = std::vector<SequenceBias>{{Ids{1}, nan}}}},
      {"forced_bos_token_id", {.forced_bos_token_id = -1}},
      {"suppress_tokens", {.suppress_tokens = Ids{-1}}},
      {"exponential_decay", {.exponential_decay_length_penalty = ExponentialDecay{.start = -1}}},
      {"exponential_decay", {.exponential_decay_length_penalty = ExponentialDecay{.factor = 0}}},
      {"guidance_scale", {.guidance_scale = nan}},
      {"greenlist_ratio", {.watermarking_config = WatermarkingConfig{.greenlist_ratio = 1}}},
      {"seeding_scheme", {.watermarking_config = WatermarkingConfig{.seeding_scheme = "none"}}},
      {"context_width", {.watermarking_config = WatermarkingConfig{.context_width = 0}}},
      {"prompt_lookup_num_tokens", {.prompt_lookup_num_tokens = 0}},
      {"num_assistant_tokens", {.num_assistant_tokens = 513}},
      {"assistant_confidence_threshold", {.assistant_confidence_threshold = nan}},
      {"drafts", {.num_beams = 2, .prompt_lookup_num_tokens = 3}},
      {"prefill_chunk_size", {.prefill_chunk_size = 0}},
      {"stop string", {.stop_strings = {""}}},
      {"tokenizer", {.stop_strings = {"a"}}},
      {"mamba", {.cache_implementation = "mamba"}},
      {"max_cache_len", {.max_cache_len = 9}},
      {"use_cache", {.use_cache = false, .cache_implementation = "static"}},
      {"use_cache", {.use_cache = false, .cache_config = {.backend = "int8"}}},
      {"offloading", {.cache_implementation = "offloaded", .cache_config = {.offloading = false}}},
      {"max_cache_len", {.cache_implementation = "static", .max_cache_len = -3}}};
  for (const auto& [name, options] : cases) {
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&, &o = options] { resolved(o); }), HasSubstr(name));
  }
}

TEST(GenerationConfigTest, ValuesOfTheFileAreCheckedAsThoseOfTheCall) {
  const std::pair<const char*, Json> cases[] = {{"temperature", {{"temperature", -1}}},
                                                {"top_p", {{"top_p", 5}}},
                                                {"max_length", {{"max_length", 99999999999}}},
                                                {"max_new_tokens", {{"max_new_tokens", -1}}}};
  for (const auto& [name, file] : cases) {
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&, &f = file] { resolved({}, f); }), HasSubstr(name));
    EXPECT_EQ(resolved({.max_new_tokens = 2, .temperature = 1.0, .top_p = 1.0}, file).max_new_tokens, 2) << name;
  }
}

TEST(GenerationConfigTest, OptionsThatOnlyMatterWhenSamplingAreWarnedOf) {
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  resolved({.temperature = 0.5, .top_p = 0.9});
  EXPECT_THAT(warnings, ::testing::ElementsAre("without do_sample, temperature, top_p changes nothing"));
  resolved({.do_sample = true, .temperature = 0.5});
  resolved({.temperature = 0.5}, {{"do_sample", true}});
  resolved({.temperature = 0.0}, {{"temperature", 0.5}, {"top_k", 5}});  // greedy; and a file is no mistake of the call
  set_warning_handler({});
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(GenerationConfigTest, AStaticCacheIsSizedToTheTextOrChecked) {
  EXPECT_EQ(resolved({.max_new_tokens = 7, .cache_implementation = "static"}).max_cache_len, 12);
  EXPECT_EQ(resolved({.max_new_tokens = 7, .cache_implementation = "static", .max_cache_len = 99}).max_cache_len, 99);
  const std::string message = thrown(ErrorKind::kInvalidArgument, [] {
    resolved({.max_new_tokens = 7, .cache_implementation = "static", .max_cache_len = 11});
  });
  EXPECT_THAT(message, HasSubstr("5 + 7"));
  EXPECT_THAT(message, HasSubstr("11"));
}

}  // namespace
}  // namespace mneme
