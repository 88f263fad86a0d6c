#include "mneme/cli/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace mneme::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m", kRed = "\x1b[31m", kPlain = "\x1b[0m", kEraseLine = "\r\x1b[K";

/// write(2) until all is out; the errno that stopped it, or 0.
int write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

/// Words of files and templates may hold anything; a message is one line without control characters.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return line;
}

}  // namespace

Console::Console()
    : stdout_is_terminal_(::isatty(STDOUT_FILENO) == 1),
      stderr_is_terminal_(::isatty(STDERR_FILENO) == 1),
      colour_(stderr_is_terminal_ && !std::getenv("NO_COLOR")) {}

Console::~Console() { end_progress(); }

void Console::write(std::string_view text) {
  end_progress();
  const int problem = write_all(STDOUT_FILENO, text);
  if (problem == EPIPE) throw StdoutClosed{};
  if (problem != 0) throw std::system_error(problem, std::generic_category(), "cannot write to standard output");
}

void Console::write_json(const Json& object) {
  write(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Console::say(std::string_view text) {
  end_progress();
  const std::string name = colour_ ? std::string(kRed) + "mneme:" + std::string(kPlain) : "mneme:";
  write_error(name + " " + one_line(text) + "\n");
}

void Console::note(std::string_view text) {
  end_progress();
  const std::string line = one_line(text);
  write_error(colour_ ? std::string(kDim) + line + std::string(kPlain) + "\n" : line + "\n");
}

void Console::progress(std::string_view text) {
  if (!stderr_is_terminal_) return;
  write_error(std::string(kEraseLine) + one_line(text));
  progress_shown_ = true;
}

void Console::end_progress() {
  if (!progress_shown_) return;
  progress_shown_ = false;
  write_error(kEraseLine);
}

void Console::write_error(std::string_view text) noexcept { write_all(STDERR_FILENO, text); }

}  // namespace mneme::cli
