#pragma once

#include <csignal>

namespace mneme::cli {

/// While it lives, the first Ctrl-C asks to stop. The second one ends the process at once, unless somebody handled
/// Ctrl-C before, as a LineEditor does: then it asks again.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool asked() noexcept;

 private:
  struct sigaction before_;
};

}  // namespace mneme::cli
