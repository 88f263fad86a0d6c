#include "mneme/text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> matches_of(const Regex& regex, std::string_view text) {
  std::vector<ByteRange> ranges;
  regex.find_all(text, ranges);
  std::vector<std::string> matches;
  for (const auto& [begin, end] : ranges) matches.emplace_back(text.substr(begin, end - begin));
  return matches;
}

using Strings = std::vector<std::string>;

TEST(RegexTest, FindsAllMatches) {
  EXPECT_EQ(matches_of(Regex("\\p{L}+"), "añb 日本 c"), (Strings{"añb", "日本", "c"}));
  EXPECT_EQ(matches_of(Regex("z"), "abc"), Strings{});
  EXPECT_EQ(matches_of(Regex("a"), ""), Strings{});
  EXPECT_EQ(matches_of(Regex("(?<=a)b"), "abb"), Strings{"b"});
}

TEST(RegexTest, CountsAnEmptyMatchOnlyAwayFromThePreviousOne) {
  EXPECT_EQ(matches_of(Regex("x*"), "axxb"), (Strings{"", "xx", ""}));
  EXPECT_EQ(matches_of(Regex(""), "é"), (Strings{"", ""}));
}

TEST(RegexTest, NamesABadPattern) {
  EXPECT_THAT(testing::thrown(ErrorKind::kUnsupported, [] { Regex("a(b"); }), HasSubstr("\"a(b\""));
  EXPECT_THAT(testing::thrown(ErrorKind::kUnsupported, [] { Regex("\\C"); }), HasSubstr("cannot be used"));
  EXPECT_THAT(testing::thrown(ErrorKind::kUnsupported, [] { Regex(std::string(1 << 20, 'a')); }),
              HasSubstr("longer than the limit"));
  EXPECT_FALSE(is_valid_regex("["));
  EXPECT_TRUE(is_valid_regex("[a]"));
}

TEST(RegexTest, GivesUpInsteadOfHanging) {
  const Regex regex("(a+)+[^a]");
  const std::string text(5000, 'a');
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument, [&] { matches_of(regex, text); }),
              HasSubstr("gave up at byte 0 of a text of 5000"));
}

TEST(RegexTest, StreamsOverALongText) {
  EXPECT_EQ(matches_of(Regex("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|x"), std::string(1 << 20, ' ') + "x").size(), 3u);
}

TEST(RegexTest, FindsLiteralsWithoutOverlap) {
  std::vector<ByteRange> ranges;
  find_all_literal("aaaa a", "aa", ranges);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[1].begin, 2u);
  find_all_literal("abc", "", ranges);
  EXPECT_EQ(ranges.size(), 2u);
}

}  // namespace
}  // namespace mneme
