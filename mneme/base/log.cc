#include "mneme/base/log.h"

#include <mutex>
#include <utility>

namespace mneme {
namespace {

std::mutex mutex;
WarningHandler& handler() {
  static WarningHandler current;
  return current;
}

}  // namespace

void set_warning_handler(WarningHandler replacement) {
  const std::lock_guard lock(mutex);
  handler() = std::move(replacement);
}

void warn(const std::string& message) {
  WarningHandler current;
  {
    const std::lock_guard lock(mutex);
    current = handler();
  }
  if (current) current(message);
}

}  // namespace mneme
