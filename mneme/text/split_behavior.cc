#include "mneme/text/split_behavior.h"

#include <algorithm>

namespace mneme {
namespace {

struct Segment {
  ByteRange range;
  bool delimiter;
};

/// Matches and what lies between them, without the empty ranges between neighbours.
std::vector<Segment> segments_of(std::size_t n_bytes, const std::vector<ByteRange>& matches, bool invert) {
  std::vector<Segment> segments;
  segments.reserve(2 * matches.size() + 1);
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    if (match.begin > done) segments.push_back({{done, match.begin}, invert});
    segments.push_back({match, !invert});
    done = match.end;
  }
  if (done < n_bytes) segments.push_back({{done, n_bytes}, invert});
  return segments;
}

}  // namespace

void split_at(std::size_t n_bytes, const std::vector<ByteRange>& matches, SplitBehavior behavior, bool invert,
              std::vector<ByteRange>& pieces) {
  std::vector<Segment> segments = segments_of(n_bytes, matches, invert);
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(segments.begin(), segments.end());

  std::vector<ByteRange> merged;
  merged.reserve(segments.size());
  bool previous = false;
  for (const auto& [range, delimiter] : segments) {
    if (behavior == SplitBehavior::kRemoved && delimiter) continue;
    const bool joins = behavior == SplitBehavior::kContiguous           ? delimiter == previous
                       : behavior == SplitBehavior::kMergedWithPrevious ? delimiter && !previous
                       : behavior == SplitBehavior::kMergedWithNext     ? delimiter && !previous
                                                                        : false;
    if (joins && !merged.empty()) {
      merged.back() = {std::min(merged.back().begin, range.begin), std::max(merged.back().end, range.end)};
    } else {
      merged.push_back(range);
    }
    previous = delimiter;
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  for (const ByteRange& range : merged) {
    if (range.begin < range.end) pieces.push_back(range);
  }
}

}  // namespace mneme
