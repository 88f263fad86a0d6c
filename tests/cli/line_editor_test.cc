#include "mneme/cli/line_editor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

namespace mneme::cli {
namespace {

/// A process that reads messages from a terminal of its own and says them in brackets.
class Typist {
 public:
  Typist() {
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    LineEditor editor;
    while (const auto message = editor.read("> ")) std::printf("[%s]\n", message->c_str()), std::fflush(stdout);
    std::printf("end\n"), std::fflush(stdout);
    ::_exit(0);
  }
  ~Typist() {
    ::close(terminal_);
    ::waitpid(child_, nullptr, 0);
  }
  Typist(const Typist&) = delete;
  Typist& operator=(const Typist&) = delete;

  void type(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), std::ssize(keys));
  }

  /// Until the process has had nothing to say for a while: what it was told is done.
  void settle() {
    pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
    char some[256];
    while (::poll(&ready, 1, 200) > 0 && ::read(terminal_, some, sizeof some) > 0) {
    }
    said_.clear();
  }
  /// Ctrl-D, to an editor that waits for a key: before, the terminal takes it for itself.
  void end() {
    settle();
    type("\x04");
  }
  /// Ctrl-C, likewise: before, a terminal that sees it drops what was just written.
  void interrupt() {
    settle();
    type("\x03");
  }
  void signal(int number) const { ASSERT_EQ(::kill(child_, number), 0); }

  /// Whether the process says this within some seconds; what was said before counts no more.
  bool says(const std::string& text) {
    for (int i = 0; i < 200; ++i) {
      if (const std::size_t at = said_.find(text); at != said_.npos) {
        said_.erase(0, at + text.size());
        return true;
      }
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 50) <= 0) continue;
      char some[256];
      const ssize_t n = ::read(terminal_, some, sizeof some);
      if (n <= 0) break;
      said_.append(some, static_cast<std::size_t>(n));
    }
    ADD_FAILURE() << "not said: " << text << " in " << said_;
    return false;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string said_;
};

TEST(LineEditor, CtrlCDropsTheLineAndCtrlDEnds) {
  Typist typist;
  ASSERT_TRUE(typist.says("> "));
  typist.type("half a line");
  ASSERT_TRUE(typist.says("line"));
  typist.interrupt();
  ASSERT_TRUE(typist.says("[]"));
  ASSERT_TRUE(typist.says("> "));
  typist.type("whole\n");
  ASSERT_TRUE(typist.says("[whole]"));
  typist.interrupt();
  ASSERT_TRUE(typist.says("[]"));
  ASSERT_TRUE(typist.says("> "));
  typist.type("two\\\n");
  ASSERT_TRUE(typist.says("... "));
  typist.type("lines\n");
  ASSERT_TRUE(typist.says("[two\r\nlines]"));
  typist.type("\"\"\"\none\n");
  ASSERT_TRUE(typist.says("... "));
  typist.interrupt();  // all of a message goes
  ASSERT_TRUE(typist.says("[]"));
  ASSERT_TRUE(typist.says("> "));
  typist.end();
  ASSERT_TRUE(typist.says("end"));
}

TEST(LineEditor, CtrlCNeverEndsTheProgramWheneverItComes) {
  for (int round = 0; round < 4; ++round) {
    Typist typist;
    ASSERT_TRUE(typist.says("> "));
    for (int i = 0; i < 50; ++i) {
      typist.type(i % 3 == 0 ? "some\x03" : "\x03");  // at once: while a prompt is written, between two of them
      ::usleep(static_cast<useconds_t>(i % 5 * round * 100));
    }
    typist.settle();
    typist.type("\x15here\n");
    ASSERT_TRUE(typist.says("[here]"));
    typist.end();
    ASSERT_TRUE(typist.says("end"));
  }
}

TEST(LineEditor, SignalsFromElsewhereDropALineOrDrawItAnew) {
  Typist typist;
  ASSERT_TRUE(typist.says("> "));
  for (int i = 0; i < 50; ++i) typist.signal(SIGINT);
  ASSERT_TRUE(typist.says("[]"));
  typist.settle();
  typist.type("one ");
  ASSERT_TRUE(typist.says("one"));
  typist.signal(SIGWINCH);
  typist.signal(SIGSTOP);
  typist.signal(SIGCONT);
  ASSERT_TRUE(typist.says("one"));
  typist.type("line\n");
  ASSERT_TRUE(typist.says("[one line]"));
}

TEST(LineEditor, EditsAndRemembersLinesOfAnyCharacters) {
  Typist typist;
  ASSERT_TRUE(typist.says("> "));
  typist.type("Gr\u00fc\u00dfe\n");
  ASSERT_TRUE(typist.says("[Gr\u00fc\u00dfe]"));
  typist.type("\x1b[A\x1b[H\x1b[3~g\x1b[F!\n");  // the line before, its first letter deleted
  ASSERT_TRUE(typist.says("[gr\u00fc\u00dfe!]"));
  typist.type("no \xff character\n");
  ASSERT_TRUE(typist.says("[no  character]"));
}

}  // namespace
}  // namespace mneme::cli
