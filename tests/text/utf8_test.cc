#include "mneme/text/utf8.h"

#include <gtest/gtest.h>

namespace mneme {
namespace {

TEST(Utf8Test, ReadsWhatItAppends) {
  for (const char32_t c : {0x0u, 0x41u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu, 0x10000u, 0x10ffffu}) {
    std::string text;
    append_utf8(text, c);
    const CodePoint read = read_code_point(text, 0);
    EXPECT_TRUE(read.valid);
    EXPECT_EQ(read.value, c);
    EXPECT_EQ(read.length, text.size());
    EXPECT_EQ(to_valid_utf8(text), text);
  }
}

TEST(Utf8Test, ReplacesMaximalInvalidSequences) {
  // The example of the Unicode Standard, table 3-8, then surrogates, overlong forms and code points that are too large.
  EXPECT_EQ(to_valid_utf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), "\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xff"), "\uFFFD");
}

TEST(Utf8Test, TellsCutOffFromWrong) {
  EXPECT_TRUE(read_code_point("\xf0\x9f\x98", 0).cut_off);
  EXPECT_FALSE(read_code_point("\xf0\x9f\x98x", 0).cut_off);
  EXPECT_FALSE(read_code_point("\xe0\x80", 0).cut_off);
  EXPECT_FALSE(read_code_point("\x80", 0).cut_off);
}

TEST(Utf8Test, VisitsEveryCharacterOnce) {
  std::u32string seen;
  std::size_t last = 0;
  for_each_code_point("aé日😀", [&](char32_t c, std::size_t begin, std::size_t end) {
    EXPECT_EQ(begin, last);
    last = end;
    seen += c;
  });
  EXPECT_EQ(seen, U"aé日😀");
}

}  // namespace
}  // namespace mneme
