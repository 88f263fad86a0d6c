#include "mneme/cli/line_editor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

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

  /// Some time after what came before, as people do: the editor waits for a key by then.
  void type(const std::string& keys) const {
    ::usleep(400'000);
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), std::ssize(keys));
  }

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
  typist.type("\x03");
  ASSERT_TRUE(typist.says("[]"));
  ASSERT_TRUE(typist.says("> "));
  typist.type("whole\n");
  ASSERT_TRUE(typist.says("[whole]"));
  typist.type("\x03");
  ASSERT_TRUE(typist.says("[]"));
  ASSERT_TRUE(typist.says("> "));
  typist.type("two\\\n");
  ASSERT_TRUE(typist.says("... "));
  typist.type("lines\n");
  ASSERT_TRUE(typist.says("[two\r\nlines]"));
  typist.type("\"\"\"\none\n");
  ASSERT_TRUE(typist.says("... "));
  typist.type("\x03");  // all of a message goes
  ASSERT_TRUE(typist.says("[]"));
  ASSERT_TRUE(typist.says("> "));
  typist.type("\x04");
  ASSERT_TRUE(typist.says("end"));
}

}  // namespace
}  // namespace mneme::cli
