#include "mneme/generate/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/base/log.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

TEST(GenerationConfigTest, TheFileAloneDecidesAboutEosWhereThereIsOne) {
  ModelConfig model;
  model.eos_token_id = {2};
  const testing::TempFolder folder;
  EXPECT_EQ(GenerationConfig::from_pretrained(folder.path(), model).eos_token_id, Ids({2}));
  folder.write("generation_config.json", R"({"eos_token_id": [1, 106]})");
  EXPECT_EQ(GenerationConfig::from_pretrained(folder.path(), model).eos_token_id, Ids({1, 106}));
  folder.write("generation_config.json", "{}");
  EXPECT_EQ(GenerationConfig::from_pretrained(folder.path(), model).eos_token_id, Ids());
}

TEST(GenerationConfigTest, NegativeIdsMeanNone) {
  const GenerationConfig config =
      GenerationConfig::from_json({{"eos_token_id", {-1, 7}}, {"pad_token_id", -1}, {"bos_token_id", -1}}, "f");
  EXPECT_EQ(config.eos_token_id, Ids({7}));
  EXPECT_EQ(config.pad_token_id, std::nullopt);
  EXPECT_EQ(config.bos_token_id, std::nullopt);
}

TEST(GenerationConfigTest, WrongTypesNameFileAndKey) {
  for (const char* text :
       {R"({"temperature": "hot"})", R"({"eos_token_id": "a"})", R"({"eos_token_id": [1, null]})", R"({"top_k": 1.5})",
        R"({"early_stopping": "yes"})", R"({"bad_words_ids": [3]})", R"({"sequence_bias": [[3, 1.0]]})",
        R"({"exponential_decay_length_penalty": 5})", R"({"stop_strings": [1]})", R"({"watermarking_config": 1})",
        R"({"eos_token_id": 18446744073709551615})", R"({"eos_token_id": [2147483648]})", R"({"do_sample": 1})", "[]",
        "3"}) {
    EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { GenerationConfig::from_json(Json::parse(text), "file.json"); }),
                HasSubstr("file.json"))
        << text;
  }
  EXPECT_FALSE(GenerationConfig::from_json(Json::parse(R"({"temperature": null, "top_k": null})"), "f").temperature);
}

const char* const kFull =
    R"({"max_new_tokens": 9, "min_new_tokens": 1, "max_length": 20, "min_length": 3, "max_time": 2.5,
  "stop_strings": ["a", "b"], "do_sample": true, "num_beams": 4, "num_return_sequences": 2, "length_penalty": 0.5,
  "early_stopping": "never", "temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.1, "top_h": 0.4,
  "typical_p": 0.95, "epsilon_cutoff": 0.001, "eta_cutoff": 0.002, "repetition_penalty": 1.1,
  "encoder_repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 4,
  "bad_words_ids": [[3], [4, 5]], "sequence_bias": [[[1, 2], -2.5]], "forced_bos_token_id": 1,
  "forced_eos_token_id": [2], "suppress_tokens": [7, 8], "begin_suppress_tokens": [],
  "exponential_decay_length_penalty": [5, 1.5], "renormalize_logits": true, "remove_invalid_values": false,
  "guidance_scale": 1.5, "watermarking_config": {"greenlist_ratio": 0.5, "bias": 1.0, "hashing_key": 7,
  "seeding_scheme": "selfhash", "context_width": 2}, "eos_token_id": [1, 2], "pad_token_id": 0,
  "prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 4,
  "num_assistant_tokens": 7, "assistant_confidence_threshold": 0.5, "decoder_start_token_id": 6, "bos_token_id": 5})";

/// Without the order of keys.
nlohmann::json sorted(const Json& json) { return nlohmann::json::parse(json.dump()); }

TEST(GenerationConfigTest, WhatIsReadIsWritten) {
  const Json json = Json::parse(kFull);
  EXPECT_EQ(sorted(GenerationConfig::from_json(json, "f").to_json()), sorted(json));
  EXPECT_EQ(GenerationConfig::from_json(Json::object(), "f").to_json(), Json::object());
  const testing::TempFolder folder;
  GenerationConfig::from_json(json, "f").save_pretrained(folder.path());
  EXPECT_EQ(sorted(GenerationConfig::from_pretrained(folder.path(), {}).to_json()), sorted(json));
  thrown(ErrorKind::kIo, [&] { GenerationConfig().save_pretrained(folder.path() + "/not/there"); });
}

TEST(GenerationConfigTest, EarlyStoppingIsAFlagOrNever) {
  const auto read = [](const char* text) {
    return GenerationConfig::from_json({{"early_stopping", Json::parse(text)}}, "f").early_stopping;
  };
  EXPECT_EQ(read("true"), EarlyStopping::kTrue);
  EXPECT_EQ(read("false"), EarlyStopping::kFalse);
  EXPECT_EQ(read("\"never\""), EarlyStopping::kNever);
  EXPECT_EQ(read("null"), std::nullopt);
}

TEST(GenerationConfigTest, UnknownKeysAreWarnedOfByName) {
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  GenerationConfig::from_json({{"transformers_version", "5"}, {"temprature", 1}, {"dola_layers", nullptr}}, "f.json");
  set_warning_handler({});
  EXPECT_THAT(warnings, ::testing::ElementsAre("f.json: nothing is known of temprature"));
}

TEST(GenerationConfigTest, KeysThatSetNothingAreToldWhereTheyAskForSomething) {
  EXPECT_THAT(GenerationConfig::keys_without_effect({{"use_cache", true}, {"output_scores", false}, {"top_k", 5}}),
              ::testing::IsEmpty());
  EXPECT_THAT(
      GenerationConfig::keys_without_effect({{"use_cache", false},
                                             {"output_scores", true},
                                             {"output_attentions", true},
                                             {"cache_implementation", "static"},
                                             {"cache_config", nullptr},
                                             {"transformers_version", "5"}}),
      ::testing::UnorderedElementsAre("use_cache", "output_scores", "output_attentions", "cache_implementation"));
}

TEST(GenerationConfigTest, AllKeysOfTheFileAreDefaultsOfTheCall) {
  const GenerationConfig file = GenerationConfig::from_json(Json::parse(kFull), "f");
  GenerationConfig all;
  static_cast<GenerateOptions&>(all) = merged({}, file);
  all.bos_token_id = file.bos_token_id;
  EXPECT_EQ(all.to_json(), file.to_json());
  EXPECT_EQ(merged({.max_length = 7}, file).max_new_tokens, std::nullopt);  // one choice with max_new_tokens
  EXPECT_EQ(merged({.max_new_tokens = 7}, file).max_length, std::nullopt);
}

}  // namespace
}  // namespace mneme
