#include "mneme/cli/line_editor.h"

#include <editline/readline.h>
#include <setjmp.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>

namespace mneme::cli {
namespace {

constexpr const char* kFence = "\"\"\"";
constexpr const char* kMore = "... ";

sigjmp_buf before_line;
volatile std::sig_atomic_t reads_line = 0;

extern "C" void on_line_interrupt(int) {
  if (reads_line) siglongjmp(before_line, 1);
}

/// readline() of libedit, which knows no other way out than to jump over its frames. Null at the end of the input;
/// `interrupted` says whether Ctrl-C ended it.
char* edited_line(const char* prompt, volatile bool& interrupted) {
  struct sigaction action {
  }, before{};
  action.sa_handler = on_line_interrupt;
  sigaction(SIGINT, &action, &before);
  char* volatile line = nullptr;
  interrupted = sigsetjmp(before_line, /*savemask=*/1) != 0;
  if (!interrupted) {
    reads_line = 1;
    line = readline(prompt);
  }
  reads_line = 0;
  sigaction(SIGINT, &before, nullptr);
  return line;
}

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
  volatile bool interrupted = false;
  const std::unique_ptr<char, decltype(&std::free)> line(edited_line(prompt.c_str(), interrupted), std::free);
  if (interrupted) {
    std::cerr << "^C (Ctrl-D ends)\n";
    throw LineInterrupted{};
  }
  if (!line) return std::nullopt;
  if (*line != '\0') add_history(line.get());
  return line.get();
}

std::optional<std::string> LineEditor::read(const std::string& prompt) try {
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
} catch (const LineInterrupted&) {
  return "";
}

}  // namespace mneme::cli
