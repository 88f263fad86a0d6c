#include "mneme/cli/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>
#include <new>

#include "mneme/cli/signal_pipe.h"

namespace mneme::cli {
namespace {

constexpr const char* kFence = "\"\"\"";
constexpr const char* kMore = "... ";
constexpr int kLinesOfHistory = 1000;

/// Keys as terminals send them, beside the arrows, which the editor knows from terminfo.
constexpr const char* kKeys[][2] = {
    {"\\e[1~", "ed-move-to-beg"}, {"\\e[H", "ed-move-to-beg"},       {"\\e[4~", "ed-move-to-end"},
    {"\\e[F", "ed-move-to-end"},  {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"},
    {"\\e[1;5D", "ed-prev-word"}, {"^R", "em-inc-search-prev"},
};

struct LineInterrupted {};

}  // namespace

/// The editor of libedit, which gets its keys from here: so it never waits where a signal cannot reach it, and nothing
/// jumps over its frames.
class LineEditor::Terminal {
 public:
  Terminal() {
    std::setlocale(LC_CTYPE, "");  // for characters of more than one byte
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    history_.reset(::history_init());
    editor_.reset(::el_init("mneme", stdin, stdout, stderr));
    if (!history_ || !editor_) throw std::bad_alloc();
    HistEvent event;
    ::history(history_.get(), &event, H_SETSIZE, kLinesOfHistory);
    ::el_set(editor_.get(), EL_CLIENTDATA, this);
    ::el_set(
        editor_.get(), EL_PROMPT, +[](EditLine* editor) { return of(editor).prompt_.data(); });
    ::el_set(
        editor_.get(), EL_GETCFN, +[](EditLine* editor, wchar_t* key) { return of(editor).next_key(*key); });
    ::el_set(editor_.get(), EL_HIST, ::history, history_.get());
    ::el_set(editor_.get(), EL_EDITOR, "emacs");
    for (const auto& [key, command] : kKeys) ::el_set(editor_.get(), EL_BIND, key, command, nullptr);
    ::el_source(editor_.get(), nullptr);  // ~/.editrc
    // Else a terminal that sees Ctrl-C drops what was just written, the next prompt with it.
    ::el_set(editor_.get(), EL_SETTY, "-d", "noflsh", nullptr);
  }

  /// Throws LineInterrupted.
  std::optional<std::string> read_line(const std::string& prompt) {
    prompt_ = prompt;
    interrupted_ = false;
    int n = 0;
    const char* const typed = ::el_gets(editor_.get(), &n);
    if (interrupted_) throw LineInterrupted{};
    if (!typed || n <= 0) return std::nullopt;
    std::string line(typed, static_cast<std::size_t>(n));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event;
    if (!line.empty()) ::history(history_.get(), &event, H_ENTER, line.c_str());
    return line;
  }

 private:
  static Terminal& of(EditLine* editor) {
    void* data = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Terminal*>(data);
  }

  /// As libedit asks for it: 1 and a character, 0 at the end of the input, -1 where reading ends without one.
  int next_key(wchar_t& key) {
    std::mbstate_t state{};
    while (true) {
      if (!wait_for_byte()) return -1;
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return 0;
      const std::size_t length = std::mbrtowc(&key, &byte, 1, &state);
      if (length <= 1) return 1;
      if (length == static_cast<std::size_t>(-1)) state = {};  // no character begins like this: it is passed over
    }
  }

  /// False: Ctrl-C came first.
  bool wait_for_byte() {
    while (true) {
      pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                        {.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
      ::poll(ready, 2, -1);
      while (const int signal = signals_.take()) {
        interrupted_ = interrupted_ || signal == SIGINT;
        if (signal == SIGWINCH) ::el_resize(editor_.get());
        if (signal == SIGCONT) {  // whoever had the terminal meanwhile left it as programs find it
          ::el_set(editor_.get(), EL_PREP_TERM, 1);
          ::el_set(editor_.get(), EL_REFRESH);
        }
      }
      if (interrupted_) {
        ::tcflush(STDIN_FILENO, TCIFLUSH);
        return false;
      }
      if (ready[0].revents != 0) return true;
    }
  }

  struct End {
    void operator()(EditLine* editor) const { ::el_end(editor); }
    void operator()(History* history) const { ::history_end(history); }
  };

  SignalPipe signals_;
  std::unique_ptr<History, End> history_;
  std::unique_ptr<EditLine, End> editor_;
  std::string prompt_;
  bool interrupted_ = false;
};

LineEditor::LineEditor() {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) terminal_ = std::make_unique<Terminal>();
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read_line(const std::string& prompt) {
  if (terminal_) return terminal_->read_line(prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
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
  std::cerr << "^C (Ctrl-D ends)\n";
  return "";
}

}  // namespace mneme::cli
