#pragma once

#include <string>
#include <string_view>

#include "mneme/base/json.h"

namespace mneme::cli {

/// The reader of standard output has gone away (`mneme generate | head -c 100`): there is nothing more to do.
struct StdoutClosed {};

/// The one place that writes. Results go to stdout at once, unbuffered; everything else to stderr, each message one
/// line "mneme: ...". Colour and progress are for terminals only (and NO_COLOR is heeded).
class Console {
 public:
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Throws StdoutClosed, or std::system_error if stdout cannot take it (a full disk).
  void write(std::string_view text);
  /// The same for one object on a line of its own. Bytes that are no UTF-8 (names of files) become U+FFFD.
  void write_json(const Json& object);

  /// "mneme: <text>" on stderr, whatever it holds on one line.
  void say(std::string_view text);
  /// The same in passing: without the name, dim on a terminal. Timing, headers.
  void note(std::string_view text);
  /// A line that the next message takes away again; nothing unless stderr is a terminal.
  void progress(std::string_view text);
  void end_progress();

  bool stdout_is_terminal() const noexcept { return stdout_is_terminal_; }

 private:
  void write_error(std::string_view text) noexcept;

  bool stdout_is_terminal_, stderr_is_terminal_, colour_;
  bool progress_shown_ = false;
};

}  // namespace mneme::cli
