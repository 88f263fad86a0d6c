#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"

namespace mneme::cli {
namespace {

TEST(TokenizeCommandTest, TakesTextFromFlagFileAndStandardInput) {
  const TinyModel model;
  const Json from_flag = run_json({"tokenize", "--model", model.path(), "--text", "Hé"});
  EXPECT_EQ(from_flag["decoded"], "Hé");
  EXPECT_EQ(from_flag["ids"][0], 39);
  const TempFolder folder;
  EXPECT_EQ(run_json({"tokenize", "--model", model.path(), "--text-file", folder.write("t", "Hé")}), from_flag);
  EXPECT_EQ(run_json({"tokenize", "--model", model.path()}, {.input = "Hé"}), from_flag);
}

TEST(TokenizeCommandTest, PrintsIdsWithoutJson) {
  const TinyModel model;
  EXPECT_EQ(run({"tokenize", "--model", model.path(), "--text", "!\"#"}).out, "0 1 2\n");
  EXPECT_EQ(run({"tokenize", "--model", model.path(), "--text", ""}).out, "\n");
}

TEST(TokenizeCommandTest, SpecialTokensInTheTextAreRecognized) {
  const TinyModel model;
  EXPECT_EQ(run_json({"tokenize", "--model", model.path(), "--text", "<|im_start|>!"})["ids"], Json({501, 0}));
}

TEST(TokenizeCommandTest, TextAndFileExcludeEachOther) {
  EXPECT_THAT(refused({"tokenize", "--text", "a", "--text-file", "b"}), ::testing::HasSubstr("--text-file"));
}

}  // namespace
}  // namespace mneme::cli
