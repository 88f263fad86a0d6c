#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mneme::cli {

/// Reads what somebody types: with line editing and history on a terminal, plain lines from a file or a pipe. On a
/// terminal it takes SIGINT, SIGCONT and SIGWINCH for itself while it lives: Ctrl-C never ends the program.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// A message, without its last newline; nothing at the end of the input (Ctrl-D). A line that ends with a backslash
  /// goes on in the next one, and so does all between two lines of """. On a terminal Ctrl-C drops what was typed of
  /// it: the message is empty then.
  std::optional<std::string> read(const std::string& prompt);

 private:
  class Terminal;
  std::optional<std::string> read_line(const std::string& prompt);

  std::unique_ptr<Terminal> terminal_;  // null for a file or a pipe
};

}  // namespace mneme::cli
