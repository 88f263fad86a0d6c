#include "mneme/cli/signal_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

namespace mneme::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGCONT, SIGWINCH};

std::atomic<int> write_end = -1;
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may use it, on whichever thread

extern "C" void on_signal(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t n = ::write(write_end, &byte, 1);  // a full pipe says enough
  errno = error;
}

}  // namespace

SignalPipe::SignalPipe() {
  if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  }
  write_end = ends_[1];
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

SignalPipe::~SignalPipe() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  write_end = -1;
  for (const int end : ends_) ::close(end);
}

int SignalPipe::take() noexcept {
  unsigned char signal = 0;
  return ::read(ends_[0], &signal, 1) == 1 ? signal : 0;
}

}  // namespace mneme::cli
