#include "mneme/cli/line_editor.h"

#include <editline/readline.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <iostream>
#include <memory>

namespace mneme::cli {
namespace {

constexpr const char* kFence = "\"\"\"";
constexpr const char* kMore = "... ";

}  // namespace

LineEditor::LineEditor() : is_terminal_(::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
  if (!is_terminal_) return;
  std::setlocale(LC_CTYPE, "");  // for characters of more than one byte
  using_history();
}

std::optional<std::string> LineEditor::read_line(const std::string& prompt) {
  if (!is_terminal_) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  const std::unique_ptr<char, decltype(&std::free)> line(readline(prompt.c_str()), std::free);
  if (!line) return std::nullopt;
  if (*line != '\0') add_history(line.get());
  return line.get();
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  std::optional<std::string> line = read_line(prompt);
  if (!line) return std::nullopt;
  std::string message;
  if (*line == kFence) {
    while ((line = read_line(kMore)) && *line != kFence) message += *line + "\n";
    if (!message.empty()) message.pop_back();
    return message;
  }
  while (line->ends_with('\\')) {
    message += line->substr(0, line->size() - 1) + "\n";
    line = read_line(kMore);
    if (!line) return message;
  }
  return message + *line;
}

}  // namespace mneme::cli
