#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace mneme {

/// What went wrong, in the few kinds that a caller can act on.
enum class ErrorKind {
  kInvalidArgument,     ///< the caller's value is wrong: shape, flag, option, combination
  kOutOfRange,          ///< an id, position or length past what is there
  kFailedPrecondition,  ///< right call, wrong moment: a full static cache, crop of what was dropped
  kUnsupported,         ///< well formed, but not something this build can do
  kCorruptData,         ///< a file or template that breaks its own format
  kIo,                  ///< the operating system refused: a missing file, a folder that cannot be written
  kOutOfMemory,         ///< a byte budget, the machine's memory, or the disk of an offloaded cache is used up
};

/// The one exception type of the library. `what()` is one sentence that says what happened, both numbers where two
/// disagree, and the way out. The library never prints, exits or asserts on input.
class Error : public std::runtime_error {
 public:
  template <class... Args>
  Error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), kind_(kind) {}

  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws Error(kind, format, args...) unless `condition` holds.
template <class... Args>
inline void check(bool condition, ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    throw Error(kind, format, std::forward<Args>(args)...);
}

}  // namespace mneme
