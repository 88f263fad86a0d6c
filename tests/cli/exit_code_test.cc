#include "mneme/cli/exit_code.h"

#include <gtest/gtest.h>

#include <new>
#include <system_error>

#include "mneme/cli/console.h"

namespace mneme::cli {
namespace {

template <class E>
std::pair<int, std::string> reported(const E& thrown) {
  ::testing::internal::CaptureStderr();
  int code = -1;
  {
    Console console;
    try {
      throw thrown;
    } catch (...) {
      code = report_exception(console);
    }
  }
  return {code, ::testing::internal::GetCapturedStderr()};
}

TEST(ExitCodeTest, WhatTheCallerCanMendIsTwo) {
  for (const ErrorKind kind : {ErrorKind::kInvalidArgument, ErrorKind::kOutOfRange, ErrorKind::kUnsupported,
                               ErrorKind::kCorruptData, ErrorKind::kIo}) {
    EXPECT_EQ(exit_code_of(kind), 2);
  }
  EXPECT_EQ(exit_code_of(ErrorKind::kFailedPrecondition), 1);
  EXPECT_EQ(exit_code_of(ErrorKind::kOutOfMemory), 1);
}

TEST(ExitCodeTest, EveryExceptionBecomesOneLine) {
  using Expected = std::pair<int, std::string>;
  EXPECT_EQ(reported(UsageError("no flag")), Expected(2, "mneme: no flag\n"));
  EXPECT_EQ(reported(Error(ErrorKind::kIo, "{}: gone", "a\nb\x1b")), Expected(2, "mneme: a b?: gone\n"));
  EXPECT_EQ(reported(std::runtime_error("first\nstack trace")), Expected(1, "mneme: first\n"));
  EXPECT_EQ(reported(std::bad_alloc()).first, 1);
  EXPECT_EQ(reported(7), Expected(1, "mneme: an unknown exception\n"));
  EXPECT_EQ(reported(StdoutClosed()), Expected(0, ""));
}

}  // namespace
}  // namespace mneme::cli
