// Speech models through the program: a WAV file in, text out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = testing::test_data("models/whisper");

Arguments speech(const std::string& sound, const Arguments& more = {}) {
  Arguments all = {"generate", "--model", kModel,
                   "--dtype",  "float32", "--max-new-tokens",
                   "16",       "--audio", sound.starts_with("/") ? sound : kModel + "/" + sound};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(SpeechCommands, WriteWhatTransformersWrites) {
  for (const Json& item : read_json_file(kModel + "/golden.json").at("cases")) {
    Arguments more;
    for (const auto& [key, value] : item["options"].items()) {
      std::string flag = "--" + key;
      std::replace(flag.begin(), flag.end(), '_', '-');
      more.insert(more.end(), {flag, value.is_string() ? value.get<std::string>() : value.dump()});
    }
    const auto sounds = item["sounds"].get<std::vector<std::string>>();
    if (sounds.size() > 1) more.insert(more.end(), {"--audio", kModel + "/" + sounds[1] + ".wav"});
    const Json result = run_json(speech(sounds[0] + ".wav", more));
    const std::size_t n_prompt = item["decoder_input_ids"][0].size();
    ASSERT_EQ(result["sequences"].size(), item["sequences"].size());
    for (std::size_t i = 0; i < result["sequences"].size(); ++i) {
      const auto ids = result["sequences"][i].get<std::vector<int>>();
      auto expected = item["sequences"][i].get<std::vector<int>>();
      expected.resize(ids.size());  // shorter beams are padded
      EXPECT_EQ(ids, expected) << item["options"];
      EXPECT_GT(ids.size(), n_prompt);
    }
  }
}

TEST(SpeechCommands, TextIsWhatTheTokenizerMakesOfTheIds) {
  const Json result = run_json(speech("short.wav", {"--language", "en"}));
  const Finished finished = run(speech("short.wav", {"--language", "en"}));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_FALSE(result["texts"][0].get<std::string>().empty());
  EXPECT_EQ(finished.out, result["texts"][0].get<std::string>() + "\n");
  EXPECT_THAT(finished.out, ::testing::Not(HasSubstr("<|startoftranscript|>")));
  EXPECT_EQ(result["usage"]["prompt_tokens"], 50 + 4);
}

TEST(SpeechCommands, SoundThatCannotBeReadIsNamedInOneSentence) {
  const testing::TempFolder folder;
  EXPECT_THAT(refused(speech("/no/such.wav")), HasSubstr("/no/such.wav"));
  EXPECT_THAT(refused(speech(folder.write("x.mp3", "ID3 not a sound"))), HasSubstr("no WAV file"));
  EXPECT_THAT(refused(speech(kModel + "/golden.json")), HasSubstr("no WAV file"));
  std::string wav = testing::read_file(kModel + "/short.wav");
  EXPECT_THAT(refused(speech(folder.write("cut.wav", wav.substr(0, 1000)))), HasSubstr("the file is cut off"));
  wav[24] = '\x44', wav[25] = '\xac';
  EXPECT_THAT(refused(speech(folder.write("rate.wav", wav))),
              AllOf(HasSubstr("44100 samples a second"), HasSubstr("16000")));
  EXPECT_THAT(refused(speech("short.wav", {"--language", "xx"})), HasSubstr("<|ja|>"));
}

TEST(SpeechCommands, TextAndSoundAreEachForTheirModels) {
  EXPECT_THAT(refused({"generate", "--model", kModel, "--ids", "1,2"}), HasSubstr("use --audio FILE"));
  EXPECT_THAT(refused(speech("short.wav", {"--ids", "1"})), HasSubstr("it reads no text"));
  const TinyModel text;
  EXPECT_THAT(refused({"generate", "--model", text.path(), "--audio", kModel + "/short.wav"}),
              HasSubstr("use --prompt TEXT instead"));
  EXPECT_THAT(refused({"generate", "--model", text.path(), "--ids", "1", "--language", "en"}),
              HasSubstr("--language and --task are for speech models"));
}

TEST(SpeechCommands, InspectShowsBothCaches) {
  const Json result = run_json({"inspect", "--model", kModel});
  EXPECT_EQ(result["model"]["architecture"], "whisper");
  EXPECT_EQ(result["cache"]["plan"][0]["heads"], 2);
  EXPECT_EQ(result["cross_cache"]["plan"][0]["heads"], 2);
}

}  // namespace
}  // namespace mneme::cli
