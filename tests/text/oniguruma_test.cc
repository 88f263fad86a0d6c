#include "mneme/text/oniguruma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/base/json.h"
#include "mneme/text/regex.h"
#include "mneme/text/split_behavior.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> pieces_of(const Regex& regex, std::string_view text) {
  std::vector<ByteRange> matches, ranges;
  regex.find_all(text, matches);
  split_at(text.size(), matches, SplitBehavior::kIsolated, false, ranges);
  std::vector<std::string> pieces;
  for (const auto& [begin, end] : ranges) pieces.emplace_back(text.substr(begin, end - begin));
  return pieces;
}

TEST(OnigurumaTest, SplitsAsOniguruma) {
  const Json golden = read_json_file(testing::test_data("tokenizers/regexes.json"));
  ASSERT_GT(golden["patterns"].size(), 80u);
  for (const Json& entry : golden["patterns"]) {
    const std::string pattern = entry["pattern"];
    const Regex regex = Regex::from_oniguruma(pattern);
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      EXPECT_EQ(Json(pieces_of(regex, golden["texts"][i].get<std::string>())), entry["pieces"][i])
          << pattern << " became " << oniguruma_to_pcre2(pattern) << " on " << golden["texts"][i];
    }
  }
}

TEST(OnigurumaTest, NamesWhatItRefuses) {
  const auto error = [](const std::string& pattern) {
    return testing::thrown(ErrorKind::kUnsupported, [&] { Regex::from_oniguruma(pattern); });
  };
  EXPECT_THAT(error("(?~a)"), HasSubstr("this kind of group at byte 2"));
  EXPECT_THAT(error("(?s)a"), HasSubstr("this kind of group"));
  EXPECT_THAT(error("a(?i)b"), HasSubstr("options inside a pattern"));
  EXPECT_THAT(error("a{1,2}+"), HasSubstr("a repeated interval"));
  EXPECT_THAT(error("\\y"), HasSubstr("this escape"));
  EXPECT_THAT(error("\\xe3"), HasSubstr("above 7F"));
  EXPECT_THAT(error("\\p{NoSuchThing}"), HasSubstr("unknown property name"));
  EXPECT_THAT(error("\\p{L"), HasSubstr("without its end"));
  EXPECT_THAT(error("\\p{L)}"), HasSubstr("unknown property name"));
  EXPECT_THAT(error("\\pL"), HasSubstr("without braces"));
  EXPECT_THAT(error("[z-a]"), HasSubstr("a range that ends before it begins"));
  EXPECT_THAT(error("[[:alpha:"), HasSubstr("POSIX bracket without its end"));
  EXPECT_THAT(error("\\x{110000}"), HasSubstr("malformed character number"));
  EXPECT_THAT(error("\\ud800"), HasSubstr("malformed character number"));
  EXPECT_THAT(error("(?#"), HasSubstr("comment without its end"));
  EXPECT_THAT(error("[a"), HasSubstr("unfinished"));
  EXPECT_THAT(error("\\"), HasSubstr("unfinished"));
  EXPECT_THAT(error("\xff"), HasSubstr("cannot be used"));
  EXPECT_THAT(error(std::string(1000, '[')), HasSubstr("nested this deep"));
  EXPECT_THAT(error(std::string(1000, '(')), HasSubstr("cannot be used"));
}

}  // namespace
}  // namespace mneme
