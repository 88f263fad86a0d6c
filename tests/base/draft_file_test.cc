#include "mneme/base/draft_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::thrown;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t n_files(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(DraftFile, TakesItsPlaceWhenItIsWhole) {
  const testing::TempFolder folder;
  folder.write("note.txt", "before");
  const std::string path = folder.path() + "/note.txt";
  DraftFile draft(path);
  draft.write("after");
  draft.write(std::string_view("wards"));
  EXPECT_EQ(text_of(path), "before");
  draft.publish();
  EXPECT_EQ(text_of(path), "afterwards");
  EXPECT_EQ(n_files(folder.path()), 1u);
}

TEST(DraftFile, ThatIsNotPublishedLeavesNothingBehind) {
  const testing::TempFolder folder;
  folder.write("note.txt", "before");
  { DraftFile(folder.path() + "/note.txt").write("half"); }
  EXPECT_EQ(text_of(folder.path() + "/note.txt"), "before");
  EXPECT_EQ(n_files(folder.path()), 1u);
}

TEST(DraftFile, OfAKilledProcessIsGone) {
  const testing::TempFolder folder;
  folder.write("note.txt", "before");
  const pid_t child = ::fork();
  if (child == 0) {
    DraftFile(folder.path() + "/note.txt").write("half");
    const DraftFile draft(folder.path() + "/note.txt");
    draft.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(text_of(folder.path() + "/note.txt"), "before");
  EXPECT_EQ(n_files(folder.path()), 1u);
}

TEST(DraftFile, SaysWhyItCannotBe) {
  const testing::TempFolder folder;
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { DraftFile(folder.path() + "/none/note.txt"); }), HasSubstr("none/note.txt"));
  std::filesystem::create_directory(folder.path() + "/taken");
  DraftFile draft(folder.path() + "/taken");
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { draft.publish(); }), HasSubstr("directory"));
}

}  // namespace
}  // namespace mneme
