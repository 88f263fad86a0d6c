#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace mneme::testing {

using Arguments = std::vector<std::string>;

/// How a program is started.
struct ProcessOptions {
  std::string input = {};                             ///< standard input
  std::map<std::string, std::string> variables = {};  ///< added to the environment; "" takes one away
  std::string stdout_path = {};                       ///< a file (/dev/full) instead of a pipe
};

/// What came out of a program that has ended.
struct Finished {
  int code = -1;  ///< exit code; -1 if a signal ended it
  int signal = 0;
  std::string out, err;
};

/// A program under way: its output can be read, signals sent, and its end waited for.
class Process {
 public:
  explicit Process(const Arguments& arguments, const ProcessOptions& options = {}) {
    std::array<int, 2> in{}, out{}, err{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC) | pipe2(out.data(), O_CLOEXEC) | pipe2(err.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) start(arguments, options, in[0], out[1], err[1]);
    close(in[0]), close(out[1]), close(err[1]);
    out_ = out[0], err_ = err[0];
    // Less than a pipe holds, so this cannot block.
    EXPECT_LT(options.input.size(), 60000u);
    EXPECT_EQ(write(in[1], options.input.data(), options.input.size()), std::ssize(options.input));
    close(in[1]);
  }
  ~Process() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close_output();
    if (err_ >= 0) close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const { kill(pid_, signal); }
  void close_output() {
    if (out_ >= 0) close(std::exchange(out_, -1));
  }

  /// Waits for bytes on stdout and gives all that came so far.
  const std::string& wait_for_output() {
    const std::size_t before = result_.out.size();
    while (result_.out.size() == before && read_some()) {
    }
    return result_.out;
  }

  /// Reads to the end, kills what takes longer than five minutes.
  Finished finish() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return result_;
  }

 private:
  [[noreturn]] static void start(const Arguments& arguments, const ProcessOptions& options, int in, int out, int err) {
    dup2(in, 0), dup2(out, 1), dup2(err, 2);
    if (!options.stdout_path.empty()) dup2(open(options.stdout_path.c_str(), O_WRONLY), 1);
    for (const auto& [name, value] : options.variables) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }

  bool read_some() {
    std::array<pollfd, 2> files = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (poll(files.data(), files.size(), static_cast<int>(std::max<std::int64_t>(0, left.count()))) <= 0) {
      ADD_FAILURE() << "the program takes too long";
      kill(pid_, SIGKILL);
      return false;
    }
    take(files[0], out_, result_.out);
    take(files[1], err_, result_.err);
    return out_ >= 0 || err_ >= 0;
  }

  static void take(const pollfd& file, int& descriptor, std::string& text) {
    if (file.fd < 0 || file.revents == 0) return;
    std::array<char, 65536> buffer;
    const ssize_t n = read(descriptor, buffer.data(), buffer.size());
    if (n > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    } else {
      close(std::exchange(descriptor, -1));
    }
  }

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  Finished result_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + std::chrono::minutes(5);
};

}  // namespace mneme::testing
