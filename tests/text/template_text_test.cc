#include "mneme/text/template_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mneme::jinja {
namespace {

using ::testing::ElementsAre;

TEST(TemplateText, Utf8IsChecked) {
  EXPECT_TRUE(is_utf8("aé日👍"));
  EXPECT_TRUE(is_utf8(""));
  for (const char* bad : {"\xff", "a\xc3", "\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(TemplateText, BrokenBytesAreReplacedOneByOne) {
  const std::string text = "a\xff\xc3";
  std::size_t at = 0;
  EXPECT_EQ(next_code_point(text, at), U'a');
  EXPECT_EQ(next_code_point(text, at), U'\ufffd');
  EXPECT_EQ(next_code_point(text, at), U'\ufffd');
  EXPECT_EQ(at, text.size());
}

TEST(TemplateText, PositionsCountCodePoints) {
  const std::string text = "aé日👍z";
  EXPECT_EQ(count_code_points(text), 5u);
  EXPECT_EQ(byte_offset(text, 0), 0u);
  EXPECT_EQ(byte_offset(text, 2), 3u);
  EXPECT_EQ(byte_offset(text, 4), 10u);
  EXPECT_EQ(byte_offset(text, 99), text.size());
  EXPECT_EQ(from_code_points(code_points(text)), text);
}

TEST(TemplateText, StripsWhiteSpaceOrASet) {
  EXPECT_EQ(strip(" \u3000a b\u00a0\n", Side::kBoth), "a b");
  EXPECT_EQ(strip("  a  ", Side::kLeft), "a  ");
  EXPECT_EQ(strip("  a  ", Side::kRight), "  a");
  EXPECT_EQ(strip("éaé", Side::kBoth, "é"), "a");
  EXPECT_EQ(strip(" \n", Side::kBoth), "");
  EXPECT_EQ(strip("aba", Side::kBoth, ""), "aba");
}

TEST(TemplateText, FindsFromBothEnds) {
  EXPECT_EQ(find_text("abcabc", "bc"), 1u);
  EXPECT_EQ(find_text("abcabc", "bc", 2), 4u);
  EXPECT_EQ(find_text("abc", "abcd"), std::string::npos);
  EXPECT_EQ(find_text("abc", "", 4), std::string::npos);
  EXPECT_EQ(find_last_text("abcabc", "bc"), 4u);
  EXPECT_EQ(find_last_text("abc", "x"), std::string::npos);
  EXPECT_EQ(find_last_text("abc", ""), 3u);
}

TEST(TemplateText, LinesEndWherePythonEndsThem) {
  EXPECT_THAT(split_lines("a\r\nb\rc\nd\u2028e"), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(split_lines("a\n\n", true), ElementsAre("a\n", "\n"));
  EXPECT_THAT(split_lines(""), ElementsAre());
}

TEST(TemplateText, CaseFollowsPython) {
  EXPECT_EQ(to_upper("straße é"), "STRASSE É");
  EXPECT_EQ(to_lower("ΣΑΣ É"), "σας é");
  EXPECT_EQ(to_title("they're bill's"), "They'Re Bill'S");
  EXPECT_EQ(to_capitalized("hELLO wORLD"), "Hello world");
}

}  // namespace
}  // namespace mneme::jinja
