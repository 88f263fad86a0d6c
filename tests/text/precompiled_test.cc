#include "mneme/text/precompiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "mneme/base/error.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

std::string blob(const std::vector<std::uint32_t>& trie, const std::string& texts) {
  const auto n_bytes = static_cast<std::uint32_t>(4 * trie.size());
  std::string bytes(4 + n_bytes, '\0');
  std::memcpy(bytes.data(), &n_bytes, 4);
  if (n_bytes > 0) std::memcpy(bytes.data() + 4, trie.data(), n_bytes);
  return base64(bytes + texts);
}

/// A trie in which a becomes A!, bc becomes nothing, and d points behind the texts. Children of a node at n lie at
/// n ^ offset ^ byte, its value at n ^ offset.
std::string small_table() {
  std::vector<std::uint32_t> trie(1024);
  const auto child = [&](std::uint32_t base, char byte, std::uint32_t next_base, bool ends) {
    const std::uint32_t at = base ^ static_cast<std::uint32_t>(byte);
    trie[at] = (at ^ next_base) << 10 | (ends ? 1u << 8 : 0u) | static_cast<std::uint32_t>(byte);
  };
  trie[0] = 256u << 10;
  child(256, 'a', 512, true);
  child(256, 'b', 768, false);
  child(768, 'c', 640, true);
  child(256, 'd', 660, true);
  trie[512] = 1u << 31 | 0;
  trie[640] = 1u << 31 | 3;
  trie[660] = 1u << 31 | 99;
  return blob(trie, std::string("A!\0\0", 4));
}

std::string replaced(const PrecompiledMap& map, std::string_view grapheme) {
  std::string out;
  EXPECT_TRUE(map.append(grapheme, 100, out));
  return out;
}

TEST(PrecompiledMapTest, ReplacesGraphemesOrTheirCharacters) {
  const PrecompiledMap map(small_table(), "file");
  EXPECT_EQ(replaced(map, "a"), "A!");
  EXPECT_EQ(replaced(map, "bc"), "");
  EXPECT_EQ(replaced(map, "b"), "b");
  EXPECT_EQ(replaced(map, "bx"), "bx");
  EXPECT_EQ(replaced(map, "a\u0301"), "A!");                                // by a key that the grapheme begins with
  EXPECT_EQ(replaced(map, "a\u0301\u0301\u0301"), "A!\u0301\u0301\u0301");  // too long: character by character
  EXPECT_EQ(replaced(map, "d"), "d");
  EXPECT_EQ(replaced(map, std::string_view("\0", 1)), std::string(1, '\0'));
}

TEST(PrecompiledMapTest, AnEmptyTrieReplacesNothing) {
  EXPECT_EQ(replaced(PrecompiledMap(blob({}, ""), "file"), "a"), "a");
  EXPECT_EQ(replaced(PrecompiledMap(blob({~0u, ~0u}, "x"), "file"), "a"), "a");
}

TEST(PrecompiledMapTest, StopsAtTheLimit) {
  const PrecompiledMap map(small_table(), "file");
  std::string marks = "e", out;
  for (int i = 0; i < 100; ++i) marks += "\u0301";
  EXPECT_FALSE(map.append(marks, 20, out));
  EXPECT_LT(out.size(), 24u);
}

TEST(PrecompiledMapTest, NoReplacementBeginsInsideACharacter) {
  std::vector<std::uint32_t> trie(1024);
  trie[0] = 256u << 10;
  const std::uint32_t at = 256 ^ 'a';
  trie[at] = (at ^ 512u) << 10 | 1u << 8 | 'a';
  trie[512] = 1u << 31 | 1;
  EXPECT_EQ(replaced(PrecompiledMap(blob(trie, "é"), "file"), "a"), "a");
  EXPECT_THAT(testing::thrown(ErrorKind::kCorruptData, [&] { PrecompiledMap(blob(trie, "\xf0"), "file"); }),
              HasSubstr("file: the replacements of \"precompiled_charsmap\" are not UTF-8"));
}

TEST(PrecompiledMapTest, NamesWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return testing::thrown(ErrorKind::kCorruptData, [&] { PrecompiledMap(text, "file"); });
  };
  EXPECT_THAT(error("abc"), HasSubstr("file: \"precompiled_charsmap\" has 3 digits"));
  EXPECT_THAT(error("ab*="), HasSubstr("is not base64"));
  EXPECT_THAT(error(""), HasSubstr("of 0 bytes has no room"));
  EXPECT_THAT(error(base64(std::string("\x08\0\0\0abcd", 8))), HasSubstr("of 8 bytes has no room for a trie of 8"));
}

}  // namespace
}  // namespace mneme
