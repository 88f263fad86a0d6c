#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "mneme/kernels/visibility.h"

namespace mneme {

/// Which tokens of the past a layer keeps: exactly those that a later query may see. Everything is derived from one
/// Visibility, so what is masked, what is let go and what is reported cannot disagree.
class Retention {
 public:
  /// Full attention: every token stays.
  static Retention all() { return Retention({}); }
  /// Sliding window: a query sees itself and the window - 1 tokens before. Throws Error(kInvalidArgument) below 1.
  static Retention last(std::int64_t window);
  /// Chunked attention: a query sees its own chunk of `chunk` tokens. Throws Error(kInvalidArgument) below 1.
  static Retention chunk(std::int64_t chunk);
  /// The first `sinks` tokens and a window. Throws Error(kInvalidArgument) for negative sinks or a window below 1.
  static Retention sinks_and_last(std::int64_t sinks, std::int64_t window);

  const kernels::Visibility& visibility() const noexcept { return visibility_; }
  bool limited() const noexcept { return visibility_.limited(); }
  std::int64_t sinks() const noexcept { return visibility_.sinks; }

  /// First token (sinks apart) that the next query of a sequence of this length may see.
  std::int64_t first_needed(std::int64_t length) const { return visibility_.first_visible(length); }

  /// Whether tokens have had to be let go at this length: from then on a crop needs a recorded past.
  bool is_full(std::int64_t length) const {
    return limited() && length >= std::max(visibility_.window, visibility_.chunk);
  }

  /// The most tokens of the past that a query sees, or nothing for "all" (INT64_MAX).
  std::int64_t most_past() const;

  /// "all", "last 8", "chunk 8", "first 4 + last 8".
  std::string name() const;

  friend bool operator==(const Retention&, const Retention&) = default;

 private:
  explicit Retention(kernels::Visibility visibility) : visibility_(visibility) {}
  kernels::Visibility visibility_;
};

}  // namespace mneme
