#include "mneme/text/split_behavior.h"

#include <gtest/gtest.h>

#include <string>

namespace mneme {
namespace {

using Strings = std::vector<std::string>;

Strings split(std::string_view text, SplitBehavior behavior, bool invert = false) {
  std::vector<ByteRange> matches, pieces;
  find_all_literal(text, "-", matches);
  split_at(text.size(), matches, behavior, invert, pieces);
  Strings parts;
  for (const auto& [begin, end] : pieces) parts.emplace_back(text.substr(begin, end - begin));
  return parts;
}

TEST(SplitBehaviorTest, TreatsDelimitersAsNamed) {
  const std::string text = "-the-final--countdown-";
  EXPECT_EQ(split(text, SplitBehavior::kRemoved), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(split(text, SplitBehavior::kIsolated), (Strings{"-", "the", "-", "final", "-", "-", "countdown", "-"}));
  EXPECT_EQ(split(text, SplitBehavior::kMergedWithPrevious), (Strings{"-", "the-", "final-", "-", "countdown-"}));
  EXPECT_EQ(split(text, SplitBehavior::kMergedWithNext), (Strings{"-the", "-final", "-", "-countdown", "-"}));
  EXPECT_EQ(split(text, SplitBehavior::kContiguous), (Strings{"-", "the", "-", "final", "--", "countdown", "-"}));
}

TEST(SplitBehaviorTest, InvertsAndTakesTextsWithoutMatches) {
  EXPECT_EQ(split("a-b", SplitBehavior::kRemoved, true), (Strings{"-"}));
  EXPECT_EQ(split("ab", SplitBehavior::kRemoved, true), Strings{});
  EXPECT_EQ(split("ab", SplitBehavior::kContiguous), (Strings{"ab"}));
  EXPECT_EQ(split("", SplitBehavior::kIsolated), Strings{});
}

}  // namespace
}  // namespace mneme
