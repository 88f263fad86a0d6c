#include "mneme/generate/speech_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

const char* const kMultilingual = R"({"lang_to_id": {"<|en|>": 11, "<|de|>": 12}, "no_timestamps_token_id": 30,
                                      "task_to_id": {"translate": 20, "transcribe": 21}})";

SpeechPrompt prompt_of(const Json& generation, const GenerateOptions& options = {},
                       const Json& config = Json::object()) {
  Json raw = {{"model_type", "whisper"}, {"vocab_size", 100}};
  raw.update(config);
  return speech_prompt(10, options, GenerationConfig::from_json(generation, "g.json"),
                       ModelConfig::from_json(raw, "c.json"));
}

TEST(SpeechPrompt, NamesLanguageAndTask) {
  const Json files = Json::parse(kMultilingual);
  EXPECT_EQ(prompt_of(files, {.language = "de"}).ids, Ids({10, 12, 21, 30}));
  EXPECT_EQ(prompt_of(files, {.language = "<|en|>", .task = "translate"}).ids, Ids({10, 11, 20, 30}));
  EXPECT_FALSE(prompt_of(files, {.language = "de"}).language_at);
}

TEST(SpeechPrompt, AnUnnamedLanguageIsToBeHeard) {
  const Json files = Json::parse(kMultilingual);
  const SpeechPrompt none = prompt_of(files), task = prompt_of(files, {.task = "translate"});
  EXPECT_EQ(none.ids.size(), 3u);  // no task either, as in the reference
  EXPECT_EQ(none.ids.back(), 30);
  EXPECT_EQ(none.language_at, 1u);
  EXPECT_EQ(none.languages, Ids({12, 11}));
  EXPECT_EQ(task.ids.size(), 4u);
  EXPECT_EQ(task.ids[2], 20);
}

TEST(SpeechPrompt, FilesMayForceIds) {
  Json files = Json::parse(kMultilingual);
  files["forced_decoder_ids"] = Json::parse("[[1, 12], [2, 21]]");
  EXPECT_EQ(prompt_of(files).ids, Ids({10, 12, 21, 30}));
  EXPECT_FALSE(prompt_of(files).language_at);
  EXPECT_EQ(prompt_of(files, {.language = "en"}).ids, Ids({10, 11, 21, 30}));  // a call goes before them
  files["forced_decoder_ids"] = Json::parse("[[1, null], [2, 21], [3, 30]]");
  const SpeechPrompt heard = prompt_of(files);
  EXPECT_EQ(heard.ids.size(), 4u);
  EXPECT_EQ(heard.language_at, 1u);
  const Json config = {{"forced_decoder_ids", Json::parse("[[1, 40]]")}};
  EXPECT_EQ(prompt_of(Json::object(), {}, config).ids, Ids({10, 40}));
  EXPECT_EQ(prompt_of(Json::object()).ids, Ids({10}));
}

TEST(SpeechPrompt, TheModelsFileMayNameThemToo) {
  Json files = Json::parse(kMultilingual);
  files["language"] = "en", files["task"] = "translate";
  EXPECT_EQ(prompt_of(files).ids, Ids({10, 11, 20, 30}));
  EXPECT_EQ(prompt_of(files, {.language = "de"}).ids, Ids({10, 12, 20, 30}));
}

TEST(SpeechPrompt, WhatTheModelDoesNotKnowIsNamed) {
  const Json files = Json::parse(kMultilingual);
  const auto refusal = [](const Json& json, const GenerateOptions& options = {},
                          ErrorKind kind = ErrorKind::kInvalidArgument) {
    return thrown(kind, [&] { prompt_of(json, options); });
  };
  EXPECT_THAT(refusal(files, {.language = "xx"}), AllOf(HasSubstr("\"xx\""), HasSubstr("<|de|>, <|en|>")));
  EXPECT_THAT(refusal(files, {.language = "en", .task = "sing"}),
              AllOf(HasSubstr("\"sing\""), HasSubstr("transcribe")));
  EXPECT_THAT(refusal(Json::object(), {.language = "en"}), HasSubstr("there are none"));
  EXPECT_THAT(refusal({{"is_multilingual", false}}, {.language = "en"}), HasSubstr("English alone"));
  EXPECT_THAT(refusal({{"return_timestamps", true}}, {}, ErrorKind::kUnsupported), HasSubstr("return_timestamps"));
  EXPECT_THAT(refusal({{"lang_to_id", {{"<|en|>", 100}}}}, {}, ErrorKind::kCorruptData), HasSubstr("no id of the 100"));
  EXPECT_THAT(refusal({{"lang_to_id", 3}}, {}, ErrorKind::kCorruptData), HasSubstr("must be an object"));
  EXPECT_THAT(refusal({{"forced_decoder_ids", Json::parse("[[2, 5]]")}}, {}, ErrorKind::kCorruptData),
              HasSubstr("position 1 is missing"));
}

TEST(SpeechPrompt, ItsKeysAreKeptByAGenerationConfig) {
  const Json files = Json::parse(kMultilingual);
  const Json written = GenerationConfig::from_json(files, "g.json").to_json();
  for (const auto& [key, value] : files.items()) EXPECT_EQ(written.at(key), value) << key;
}

}  // namespace
}  // namespace mneme
