#include "mneme/cache/retention.h"

#include <fmt/format.h>

#include "mneme/base/error.h"

namespace mneme {

Retention Retention::last(std::int64_t window) {
  check(window >= 1, ErrorKind::kInvalidArgument, "a sliding window of {} tokens cannot be; it must be at least 1",
        window);
  return Retention({.window = window});
}

Retention Retention::chunk(std::int64_t chunk) {
  check(chunk >= 1, ErrorKind::kInvalidArgument, "an attention chunk of {} tokens cannot be; it must be at least 1",
        chunk);
  return Retention({.chunk = chunk});
}

Retention Retention::sinks_and_last(std::int64_t sinks, std::int64_t window) {
  check(sinks >= 0 && window >= 1, ErrorKind::kInvalidArgument,
        "{} sink tokens and a window of {} cannot be; they must be at least 0 and 1", sinks, window);
  return Retention({.window = window, .sinks = sinks});
}

std::int64_t Retention::most_past() const {
  if (!limited()) return INT64_MAX;
  return visibility_.sinks + std::max(visibility_.window, visibility_.chunk) - 1;
}

std::string Retention::name() const {
  if (visibility_.chunk) return fmt::format("chunk {}", visibility_.chunk);
  if (!visibility_.window) return "all";
  if (!visibility_.sinks) return fmt::format("last {}", visibility_.window);
  return fmt::format("first {} + last {}", visibility_.sinks, visibility_.window);
}

}  // namespace mneme
