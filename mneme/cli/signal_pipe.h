#pragma once

#include <array>
#include <csignal>

namespace mneme::cli {

/// SIGINT, SIGCONT and SIGWINCH as something to wait for beside keys: whichever thread they reach, whenever they come,
/// they lie in a pipe until take(). One at a time may live.
class SignalPipe {
 public:
  /// Throws std::system_error.
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// To poll(2): it can be read where a signal waits.
  int descriptor() const noexcept { return ends_[0]; }
  /// The signal that came first, or 0.
  int take() noexcept;

 private:
  std::array<int, 2> ends_;
  std::array<struct sigaction, 3> before_;
};

}  // namespace mneme::cli
