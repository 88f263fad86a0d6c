#include "mneme/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The program alone in a folder: whatever needs LibTorch fails there, whatever works does not load it.
class AloneTest : public ::testing::Test {
 protected:
  AloneTest() { std::filesystem::copy(testing::built("mneme"), folder_.path() + "/mneme"); }
  Finished run_alone(Arguments arguments, const ProcessOptions& options = {}) {
    arguments.insert(arguments.begin(), folder_.path() + "/mneme");
    return Process(arguments, options).finish();
  }
  TempFolder folder_;
};

TEST(ProgramTest, SaysItsVersion) {
  const Finished finished = run({"--version"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.out, ::testing::StartsWith("mneme "));
  EXPECT_EQ(finished.err, "");
}

TEST(ProgramTest, HelpNamesEveryCommandAndShowsExamples) {
  const Finished finished = run({"--help"});
  EXPECT_EQ(finished.code, 0);
  for (const char* part : {"generate", "nll", "tokenize", "render", "inspect", "Examples:", "Exit codes:"}) {
    EXPECT_THAT(finished.out, HasSubstr(part));
  }
}

TEST(ProgramTest, EachCommandHasHelpWithAnExample) {
  for (const char* command : {"generate", "nll", "tokenize", "render", "inspect"}) {
    const Finished finished = run({command, "--help"});
    EXPECT_EQ(finished.code, 0);
    EXPECT_THAT(finished.out, HasSubstr("Example"));
    EXPECT_THAT(finished.out, HasSubstr("--model"));
    EXPECT_EQ(finished.err, "");
  }
}

TEST(ProgramTest, WrongUsageIsOneSentenceThatNamesTheWordAndTheHelp) {
  EXPECT_THAT(refused({}), HasSubstr("mneme --help"));
  EXPECT_THAT(refused({"sing"}), HasSubstr("sing"));
  EXPECT_THAT(refused({"generate", "--prompt", "a", "--num-wings", "4"}), HasSubstr("--num-wings"));
  EXPECT_THAT(refused({"generate", "--prompt", "a", "--max-new-tokens", "many"}), HasSubstr("--max-new-tokens"));
  EXPECT_THAT(refused({"generate", "--prompt"}), HasSubstr("mneme generate --help"));
  EXPECT_THAT(refused({"generate"}), HasSubstr("--prompt"));
  EXPECT_THAT(refused({"generate", "--prompt", "a", "stray"}), HasSubstr("stray"));
}

TEST(ProgramTest, WrongUsageIsSaidInWordsOfOurs) {
  EXPECT_EQ(refused({"sing"}), "mneme: there is no command \"sing\"; see mneme --help\n");
  EXPECT_EQ(refused({"--loud"}), "mneme: mneme has no option --loud; see mneme --help\n");
  EXPECT_EQ(refused({"generate", "--num-wings", "4"}),
            "mneme: mneme generate has no option --num-wings; see mneme generate --help\n");
  EXPECT_EQ(refused({"generate", "stray"}), "mneme: \"stray\" belongs to no option; see mneme generate --help\n");
  EXPECT_EQ(refused({"nll", "--ids"}), "mneme: --ids needs a value; see mneme nll --help\n");
  EXPECT_EQ(refused({"nll", "--threads", "1", "--threads", "2"}),
            "mneme: --threads may be given once; see mneme nll --help\n");
}

TEST_F(AloneTest, HelpVersionAndTextCommandsDoNotLoadLibTorch) {
  const TinyModel model;
  EXPECT_EQ(run_alone({"--version"}).code, 0);
  EXPECT_EQ(run_alone({"generate", "--help"}).code, 0);
  const Finished tokenized = run_alone({"tokenize", "--model", model.path(), "--text", "Hi"});
  EXPECT_EQ(tokenized.code, 0) << tokenized.err;
  const Finished rendered = run_alone({"render", "--model", model.path(), "--messages", "-"}, {.input = "[]"});
  EXPECT_EQ(rendered.code, 0) << rendered.err;
}

TEST_F(AloneTest, AMissingTasksLibraryIsAClearFailure) {
  const TinyModel model;
  const Finished finished = run_alone({"generate", "--model", model.path(), "--ids", "1"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("libmneme-tasks.so"));
  EXPECT_THAT(finished.err, HasSubstr("install mneme again"));
}

TEST(ProgramTest, MessagesCarryNoColourAwayFromTerminals) {
  EXPECT_THAT(refused({"generate", "--model", "/nowhere", "--ids", "1"}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace mneme::cli
