#pragma once

#include <cstdint>
#include <vector>

namespace mneme {

/// What a recurrent or convolutional layer asks of a cache: for each sequence some states of fixed size, and what of a
/// token moves them on.
struct StateShape {
  /// float32 numbers of each state: a convolution's window [K - 1, C], a recurrence's state ..
  std::vector<std::int64_t> sizes;
  /// float32 numbers of a token that the states are functions of: what a recorded past keeps of it.
  std::int64_t input_width = 0;

  friend bool operator==(const StateShape&, const StateShape&) = default;
};

}  // namespace mneme
