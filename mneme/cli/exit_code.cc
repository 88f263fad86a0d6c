#include "mneme/cli/exit_code.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <string>

#include "mneme/base/printable.h"
#include "mneme/cli/console.h"

namespace mneme::cli {
namespace {

/// LibTorch's messages go on with a stack trace.
std::string first_line(std::string text) { return text.substr(0, text.find('\n')); }

}  // namespace

ExitCode exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kOutOfRange:
    case ErrorKind::kUnsupported:
    case ErrorKind::kCorruptData:
    case ErrorKind::kIo: return kWrongInput;  // a missing file; that stdout cannot be written is std::system_error
    case ErrorKind::kFailedPrecondition:
    case ErrorKind::kOutOfMemory: return kFailed;
  }
  return kFailed;
}

ExitCode report_exception(Console& console) noexcept {
  try {
    throw;
  } catch (const StdoutClosed&) {
    return kDone;
  } catch (const UsageError& error) {
    console.say(error.what());
    return kWrongInput;
  } catch (const Error& error) {
    console.say(error.what());
    return exit_code_of(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    console.say(fmt::format("cannot read {}: {}", printable(error.path1().string()), error.code().message()));
    return kWrongInput;
  } catch (const std::bad_alloc&) {
    console.say("out of memory; use a smaller model, batch or prefill chunk");
  } catch (const std::exception& error) {
    console.say(first_line(error.what()));
  } catch (...) {
    console.say("an unknown exception");
  }
  return kFailed;
}

}  // namespace mneme::cli
