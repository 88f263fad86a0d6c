#include "mneme/cli/interrupt.h"

#include <atomic>

namespace mneme::cli {
namespace {

std::atomic<int> interrupted = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may use it, on whichever thread

extern "C" void on_interrupt(int) { interrupted = 1; }

}  // namespace

Interrupt::Interrupt() {
  interrupted = 0;
  sigaction(SIGINT, nullptr, &before_);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  if (before_.sa_handler == SIG_DFL)
    action.sa_flags |= SA_RESETHAND;  // the second one does what it does to any program
  sigaction(SIGINT, &action, nullptr);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

bool Interrupt::asked() noexcept { return interrupted != 0; }

}  // namespace mneme::cli
