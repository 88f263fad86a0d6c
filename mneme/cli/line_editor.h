#pragma once

#include <optional>
#include <string>

namespace mneme::cli {

/// Reads what somebody types: with line editing and history on a terminal, plain lines from a file or a pipe.
class LineEditor {
 public:
  LineEditor();

  /// A message, without its last newline; nothing at the end of the input (Ctrl-D). A line that ends with a backslash
  /// goes on in the next one, and so does all between two lines of """. On a terminal Ctrl-C drops what was typed of
  /// it: the message is empty then.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct LineInterrupted {};
  std::optional<std::string> read_line(const std::string& prompt);

  bool is_terminal_;
};

}  // namespace mneme::cli
