#include "mneme/text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

NormalizedText normalized(const std::string& json, const std::string& text) {
  NormalizedText result{text, /*at_start=*/true};
  make_normalizer(parse_json(json, "normalizer"), "test")->normalize(result);
  return result;
}

TEST(NormalizerTest, RewritesByType) {
  const auto text = [](const std::string& json, const std::string& from) { return normalized(json, from).text; };
  EXPECT_EQ(text(R"({"type": "Strip", "strip_left": true, "strip_right": true})", " \u00a0a b\n"), "a b");
  EXPECT_EQ(text(R"({"type": "Strip", "strip_left": false, "strip_right": true})", " a "), " a");
  EXPECT_EQ(text(R"({"type": "Strip", "strip_left": true, "strip_right": false})", " a "), "a ");
  EXPECT_EQ(text(R"({"type": "Strip", "strip_left": false, "strip_right": true})", "  "), "");
  EXPECT_EQ(text(R"({"type": "Strip", "strip_left": true, "strip_right": false})", "  "), "");
  EXPECT_EQ(text(R"({"type": "Strip", "strip_left": false, "strip_right": false})", " a "), " a ");
  EXPECT_EQ(text(R"({"type": "StripAccents"})", "e\u0301\u0903"), "e");
  EXPECT_EQ(text(R"({"type": "Nmt"})", "a\x01\tb\u200b\u2581c"), "a b  c");
  EXPECT_EQ(text(R"({"type": "Prepend", "prepend": "▁"})", "a"), "▁a");
  EXPECT_EQ(text(R"({"type": "Prepend", "prepend": "▁"})", ""), "");
  EXPECT_EQ(text(R"({"type": "ByteLevel"})", " é"), "ĠÃ©");
  EXPECT_EQ(text(R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "-"})", "baab"), "b-b");
  EXPECT_EQ(
      text(R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]})",
           "É"),
      "e");
  EXPECT_EQ(text(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                     "lowercase": true})",
                 "É\tx\u200d漢\x0b"),
            "e x 漢 ");
}

TEST(NormalizerTest, RemembersWhetherTheFirstCharacterIsTheFirst) {
  const char* strip = R"({"type": "Strip", "strip_left": true, "strip_right": true})";
  EXPECT_TRUE(normalized(strip, "a ").at_start);
  EXPECT_FALSE(normalized(strip, " a").at_start);
  EXPECT_FALSE(normalized(R"({"type": "StripAccents"})", "\u0301a").at_start);
  EXPECT_TRUE(normalized(R"({"type": "Prepend", "prepend": "▁"})", "a").at_start);
}

TEST(NormalizerTest, HasNoneForNull) { EXPECT_EQ(make_normalizer(Json(), "test"), nullptr); }

TEST(NormalizerTest, NamesWhatIsWrong) {
  const auto error = [](ErrorKind kind, const char* json) {
    return testing::thrown(kind, [&] { normalized(json, ""); });
  };
  EXPECT_THAT(error(ErrorKind::kUnsupported, R"({"type": "Romanize"})"),
              HasSubstr("test: the normalizer type \"Romanize\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Precompiled", "precompiled_charsmap": "?"})"),
              HasSubstr("test: \"precompiled_charsmap\" has 1 digits"));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Strip", "strip_left": 1, "strip_right": true})"),
              HasSubstr("\"strip_left\" of the normalizer Strip must be true or false, it is number"));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Prepend"})"), HasSubstr("lacks \"prepend\""));
}

TEST(NormalizerTest, BoundsHowATextGrows) {
  std::string steps;
  for (int i = 0; i < 30; ++i) steps += R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"},)";
  steps.pop_back();
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument,
                              [&] { normalized(R"({"type": "Sequence", "normalizers": [)" + steps + "]}", "aaaa"); }),
              HasSubstr("grows a text past"));
}

}  // namespace
}  // namespace mneme
