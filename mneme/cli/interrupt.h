#pragma once

namespace mneme::cli {

/// While it lives, the first Ctrl-C asks to stop and the second one ends the process at once.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool asked() noexcept;
};

}  // namespace mneme::cli
