#pragma once

#include <cstdint>
#include <span>

namespace mneme::ops {

/// Where to write the states of a sequence as they are after some of its new tokens.
struct StateMark {
  std::int64_t n_rows;
  float* states;
};

/// The new tokens of one sequence on their way through the states of a layer. The runs of a call are in the order of
/// their rows, which follow one another from row 0 on.
struct StateRun {
  const float* before;               ///< the states before the first of the tokens
  std::int64_t first_row, n_rows;    ///< the tokens; n_rows > 0
  std::span<const StateMark> marks;  ///< ascending; the last one is after all tokens, and it alone may be `before`
};

}  // namespace mneme::ops
