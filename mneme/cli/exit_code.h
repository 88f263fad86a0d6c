#pragma once

#include <stdexcept>

#include "mneme/base/error.h"

namespace mneme::cli {

class Console;

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,         ///< while running: out of memory, a full disk
  kWrongInput = 2,     ///< usage, files, values: to be mended by whoever called
  kInterrupted = 130,  ///< Ctrl-C; what was made until then has been written
};

/// Flags that cannot be.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

ExitCode exit_code_of(ErrorKind kind);

/// Says what the exception in flight is about, as one sentence on stderr, and gives the exit code that goes with it.
/// To be called in a catch block. Standard output closed by its reader is no failure: nothing is said then.
ExitCode report_exception(Console& console) noexcept;

}  // namespace mneme::cli
