#include "mneme/text/unicode.h"

#include <gtest/gtest.h>

#include "mneme/base/json.h"
#include "tests/support/places.h"

namespace mneme {
namespace {

TEST(UnicodeTest, ClassifiesAsRustDoes) {
  int n_spaces = 0;
  for (char32_t c = 0; c < 0x110000; ++c) n_spaces += is_whitespace(c);
  EXPECT_EQ(n_spaces, 25);
  EXPECT_TRUE(is_whitespace(0x2029));
  EXPECT_FALSE(is_whitespace(0x180e));
  EXPECT_FALSE(is_whitespace(0x1c));
  for (const char32_t c : {U'1', U'²', U'٣', U'Ⅷ', U'½'}) EXPECT_TRUE(is_numeric(c));
  EXPECT_FALSE(is_numeric(U'a'));
  for (const char32_t c : U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~،。") EXPECT_TRUE(c == 0 || is_punctuation(c));
  for (const char32_t c : {U'a', U'0', U' ', U'€', U'\x7f'}) EXPECT_FALSE(is_punctuation(c));
  EXPECT_TRUE(is_mark(0x903));
  EXPECT_FALSE(is_nonspacing_mark(0x903));
  EXPECT_TRUE(is_nonspacing_mark(0x301));
  EXPECT_TRUE(is_invisible_other(0x200d));
  EXPECT_TRUE(is_invisible_other(0xe000));
  EXPECT_FALSE(is_invisible_other(0x378));  // unassigned
  EXPECT_TRUE(is_chinese_character(U'漢'));
  EXPECT_FALSE(is_chinese_character(U'か'));
}

// Over all characters: the data behind these classes are of older Unicode there.
TEST(UnicodeTest, ClassifiesAsTokenizersDo) {
  const Json golden = read_json_file(testing::test_data("tokenizers/classes.json"));
  const std::pair<const char*, bool (*)(char32_t)> classes[] = {{"nonspacing_mark", is_nonspacing_mark},
                                                                {"mark", is_mark},
                                                                {"punctuation", is_punctuation},
                                                                {"invisible_other", is_invisible_other}};
  for (const auto& [name, is] : classes) {
    std::vector<bool> expected(0x110000);
    for (const Json& range : golden[name]) {
      std::fill(expected.begin() + range[0].get<int>(), expected.begin() + range[1].get<int>() + 1, true);
    }
    for (const char32_t c : {U'\t', U'\n', U'\r'})
      expected[c] = std::string(name) == "invisible_other";                // spaces there
    if (std::string(name) == "invisible_other") expected[0xfffd] = false;  // dropped with them, by its own name
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c < 0xd800 || c >= 0xe000) {
        EXPECT_EQ(is(c), expected[c]) << name << " " << static_cast<std::uint32_t>(c);
      }
    }
  }
}

TEST(UnicodeTest, LowercasesWithoutContext) { EXPECT_EQ(to_lowercase("ABC ÄÖ ΑΣ İ ẞ"), "abc äö ασ i\u0307 ß"); }

TEST(UnicodeTest, CutsIntoGraphemes) {
  using Texts = std::vector<std::string_view>;
  EXPECT_EQ(graphemes(""), Texts{});
  EXPECT_EQ(graphemes("ab"), (Texts{"a", "b"}));
  EXPECT_EQ(graphemes("e\u0301x\r\n\u1100\u1161"), (Texts{"e\u0301", "x", "\r\n", "\u1100\u1161"}));
  EXPECT_EQ(graphemes("👩‍👩‍👧🇩🇪🇯🇵"), (Texts{"👩‍👩‍👧", "🇩🇪", "🇯🇵"}));
}

TEST(UnicodeTest, Normalizes) {
  EXPECT_EQ(normalize("e\u0301 \u1100\u1161", NormalizationForm::kNfc), "é 가");
  EXPECT_EQ(normalize("é", NormalizationForm::kNfd), "e\u0301");
  EXPECT_EQ(normalize("ﬁ①", NormalizationForm::kNfkc), "fi1");
  EXPECT_EQ(normalize("Å²", NormalizationForm::kNfkd), "A\u030a2");
  EXPECT_EQ(normalize(std::string("a\0é", 4), NormalizationForm::kNfd), std::string("a\0e\u0301", 5));
  EXPECT_EQ(normalize("", NormalizationForm::kNfc), "");
}

}  // namespace
}  // namespace mneme
