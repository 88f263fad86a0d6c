#pragma once

#include <string_view>
#include <vector>

#include "mneme/text/regex.h"

namespace mneme {

/// What becomes of the delimiters when a text is split at them. "the-final--countdown" at "-":
enum class SplitBehavior {
  kRemoved,             ///< the | final | countdown
  kIsolated,            ///< the | - | final | - | - | countdown
  kMergedWithPrevious,  ///< the- | final- | - | countdown
  kMergedWithNext,      ///< the | -final | - | -countdown
  kContiguous,          ///< the | - | final | -- | countdown
};

/// Appends the pieces of a text of `n_bytes` whose delimiters are `matches` (in order, without overlap).
/// `invert`: the matches are what is kept, and the text between them is the delimiters.
void split_at(std::size_t n_bytes, const std::vector<ByteRange>& matches, SplitBehavior behavior, bool invert,
              std::vector<ByteRange>& pieces);

}  // namespace mneme
