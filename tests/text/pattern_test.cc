#include "mneme/text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

Pattern pattern(const std::string& json) { return Pattern::from_json(parse_json(json, "pattern"), "file"); }

TEST(PatternTest, ReplacesLiteralsAndMatches) {
  EXPECT_EQ(pattern(R"({"String": "a+"})").replace_all("a+aa+", "-", 100), "-a-");
  EXPECT_EQ(pattern(R"({"Regex": "a+"})").replace_all("baab", "", 100), "bb");
  EXPECT_EQ(pattern(R"({"Regex": "^"})").replace_all("b", "a", 100), "ab");
  EXPECT_EQ(pattern(R"({"String": ""})").replace_all("b", "a", 100), "b");
  EXPECT_EQ(Pattern("x").replace_all("", "a", 0), "");
}

TEST(PatternTest, NeverMakesATextLongerThanItSays) {
  const std::string text(50, 'a');
  for (const char* json : {R"({"String": "a"})", R"({"String": "aa"})", R"({"String": ""})", R"({"Regex": "a"})",
                           R"({"Regex": "a*?"})", R"({"Regex": ""})"}) {
    for (const char* content : {"", "b", "bbbb"}) {
      const Pattern one = pattern(json);
      const std::string replaced = one.replace_all(text, content, SIZE_MAX);
      // An empty match may also stand at the end.
      EXPECT_LE(static_cast<double>(replaced.size()), one.max_growth(content) * (text.size() + 1)) << json << content;
    }
  }
  EXPECT_EQ(pattern(R"({"String": "ab"})").max_growth("12345678"), 4);
  EXPECT_EQ(pattern(R"({"String": "ab"})").max_growth(""), 1);
}

TEST(PatternTest, RefusesToFillTheMemory) {
  EXPECT_EQ(Pattern("a").replace_all("aa", "bbb", 6), "bbbbbb");
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument, [] { Pattern("a").replace_all("aa", "bbb", 5); }),
              HasSubstr("more than 5 bytes of a text of 2"));
}

TEST(PatternTest, NamesWhatIsWrong) {
  using enum ErrorKind;
  const auto error = [](ErrorKind kind, const char* json) { return testing::thrown(kind, [&] { pattern(json); }); };
  for (const char* json : {"{}", "[]", "3", R"({"String": 1})", R"({"Text": "a"})", R"({"String": "a", "Regex": "a"})"})
    EXPECT_THAT(error(kCorruptData, json), HasSubstr("file: \"pattern\" must be {\"String\": text} or")) << json;
  EXPECT_THAT(error(kUnsupported, R"({"Regex": "(a"})"), HasSubstr("(a"));
}

}  // namespace
}  // namespace mneme
