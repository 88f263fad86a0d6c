#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run.h"

namespace mneme::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ChatCommandTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new TinyModel; }
  static void TearDownTestSuite() { delete model_; }

  /// What a chat answers to these lines.
  static Finished chat(const std::string& lines, const Arguments& more = {}) {
    Arguments all = {"chat", "--model", model_->path(), "--dtype", "float32", "--max-new-tokens", "6"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all, {.input = lines});
  }

  static inline TinyModel* model_ = nullptr;
};

TEST_F(ChatCommandTest, AnswersAndSaysWhatWasCached) {
  const Finished finished = chat("hi\nand again\n");
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("[0 of "));
  EXPECT_THAT(finished.err, HasSubstr("tokens/s"));
  // What was taken back leaves nothing.
  EXPECT_EQ(chat("hi\n/undo\nhi\nand again\n").out, chat("hi\n").out + finished.out);
}

TEST_F(ChatCommandTest, CommandsWorkAndMistakesAreSaid) {
  const TempFolder folder;
  const std::string file = folder.path() + "/kept";
  const Finished finished = chat(
      "/cache\nhi\n/cache\n/fork other\nmore\n/switch\n/switch main\n/set do_sample true\n/set temperature "
      "0.5\n/save " +
      file + "\n/load " + file + "\n/system Be brief.\nhi\n");
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, Not(HasSubstr("mneme:")));
  EXPECT_THAT(finished.out, HasSubstr("nothing is cached yet"));
  EXPECT_THAT(finished.out, HasSubstr("64 tokens each"));
  EXPECT_THAT(finished.out, HasSubstr("* other\n  main\n"));
  EXPECT_TRUE(std::filesystem::exists(file + ".safetensors"));
  const Finished wrong =
      chat("/none\n/set\n/set temprature 1\n/undo 3\n/set top_p 7\n/switch nobody\n/load /no/file\nhi\n/quit\nhi\n");
  EXPECT_EQ(wrong.code, 0);
  for (const char* text : {"/none", "/set needs", "temprature", "/undo takes", "top_p", "nobody", "/no/file"})
    EXPECT_THAT(wrong.err, HasSubstr(text));
  EXPECT_THAT(wrong.err, HasSubstr("[0 of "));
}

TEST_F(ChatCommandTest, WhatIsSavedBeforeTheFirstAnswerHasNoCache) {
  const TempFolder folder;
  const std::string file = folder.path() + "/kept";
  const Finished finished = chat("/save " + file + "\n/load " + file + "\nhi\n");
  EXPECT_THAT(finished.err, HasSubstr("it has no cache yet"));
  EXPECT_THAT(finished.err, Not(HasSubstr("safetensors")));
  EXPECT_FALSE(std::filesystem::exists(file + ".safetensors"));
  EXPECT_EQ(finished.out, chat("hi\n").out);
}

TEST_F(ChatCommandTest, MessagesMayHaveSeveralLines) {
  const Finished one = chat("a\\\nb\n"), fenced = chat("\"\"\"\na\nb\n\"\"\"\n");
  EXPECT_EQ(one.out, fenced.out);
  EXPECT_THAT(one.err, Not(HasSubstr("mneme:")));
}

TEST_F(ChatCommandTest, AFullContextIsRefusedOrForgetsTheOldest) {
  const std::string lines = "one two three\none two three\none two three\none two three\n";
  EXPECT_THAT(chat(lines, {"--max-context", "90"}).err, HasSubstr("holds 90"));
  EXPECT_THAT(chat(lines, {"--max-context", "90", "--full-context", "drop-oldest"}).err,
              ContainsRegex("old turns? dropped"));
  EXPECT_THAT(chat(lines, {"--max-context", "90", "--full-context", "slide"}).err, HasSubstr("tokens slid away"));
  EXPECT_THAT(refused({"chat", "--model", model_->path(), "--max-context", "-5"}), HasSubstr("max_context"));
  EXPECT_THAT(refused({"chat", "--model", model_->path(), "--json-schema", "{\"type\": 3}"}), HasSubstr("json-schema"));
  EXPECT_THAT(refused({"chat", "--model", model_->path(), "--full-context", "forget"}), HasSubstr("drop-oldest"));
}

TEST_F(ChatCommandTest, ModelsAndFlagsThatCannotBeAreRefused) {
  EXPECT_THAT(refused({"chat", "--model", model_->path(), "--temperature", "-1"}), HasSubstr("temperature"));
  EXPECT_THAT(refused({"chat", "--model", model_->path(), "--generation-config", "{"}), HasSubstr("generation-config"));
}

}  // namespace
}  // namespace mneme::cli
