#include "mneme/cli/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <system_error>

#include "tests/support/files.h"

namespace mneme::cli {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

/// Standard output is another descriptor while this lives.
class StdoutIs {
 public:
  explicit StdoutIs(int descriptor) : saved_(dup(1)) { dup2(descriptor, 1); }
  ~StdoutIs() { dup2(saved_, 1), close(saved_); }

 private:
  int saved_;
};

TEST(ConsoleTest, MessagesAreOneLineEach) {
  CaptureStderr();
  {
    Console console;
    console.say("two\nlines\tand\x07 a bell");
    console.note("in passing");
    console.progress("not on a pipe");
  }
  EXPECT_EQ(GetCapturedStderr(), "mneme: two lines and? a bell\nin passing\n");
}

TEST(ConsoleTest, TextGoesOutAsItIs) {
  ::testing::internal::CaptureStdout();
  Console console;
  console.write("a\x1b\n");
  console.write("");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "a\x1b\n");
}

TEST(ConsoleTest, AReaderThatWentAwayIsToldFromAFullDisk) {
  std::signal(SIGPIPE, SIG_IGN);
  Console console;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  close(pipe_ends[0]);
  {
    const StdoutIs closed(pipe_ends[1]);
    EXPECT_THROW(console.write("a"), StdoutClosed);
  }
  close(pipe_ends[1]);
  const int full = open("/dev/full", O_WRONLY);
  {
    const StdoutIs disk(full);
    EXPECT_THROW(console.write("a"), std::system_error);
  }
  close(full);
}

}  // namespace
}  // namespace mneme::cli
