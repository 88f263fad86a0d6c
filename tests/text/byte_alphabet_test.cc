#include "mneme/text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace mneme {
namespace {

TEST(ByteAlphabetTest, SpellsBytesAsGpt2Does) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  EXPECT_EQ(alphabet.spell("a b\n"), "aĠbĊ");
  EXPECT_EQ(alphabet.spell("é"), "Ã©");
  EXPECT_EQ(alphabet.character(0x00), "Ā");
  EXPECT_EQ(alphabet.character(0x7f), "ġ");
  EXPECT_EQ(alphabet.character(0xa0), "ł");
  EXPECT_EQ(alphabet.character(0xad), "Ń");  // the soft hyphen is the last that is not visible
  EXPECT_EQ(alphabet.character(0xff), "ÿ");
}

TEST(ByteAlphabetTest, GivesEveryByteItsOwnCharacterAndBack) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  std::set<std::string_view> characters;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    characters.insert(alphabet.character(static_cast<std::uint8_t>(byte)));
    bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(characters.size(), 256u);
  const std::string text = alphabet.spell(bytes);
  EXPECT_TRUE(alphabet.covers(text));
  std::string back;
  alphabet.append_bytes(text, back);
  EXPECT_EQ(back, bytes);
}

TEST(ByteAlphabetTest, LeavesOtherTokensAsTheyAre) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  EXPECT_TRUE(alphabet.covers(""));
  for (const char* token : {"Ġ日", " a", "\u00a0", "\u0144"}) {  // U+0144 is one past the last character
    EXPECT_FALSE(alphabet.covers(token)) << token;
    std::string bytes = "-";
    alphabet.append_bytes(token, bytes);
    EXPECT_EQ(bytes, std::string("-") + token);
  }
}

}  // namespace
}  // namespace mneme
