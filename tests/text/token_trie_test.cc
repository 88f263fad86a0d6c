#include "mneme/text/token_trie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/places.h"
#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// Ids that a text which may go on with `allowed` lets through.
std::vector<std::int64_t> matches(const TokenTrie& trie, std::string_view allowed) {
  std::vector<std::int64_t> ids;
  trie.for_each_match(
      0, -1,
      [&](int n, std::uint8_t byte) {
        const auto at = static_cast<std::size_t>(n);
        return at < allowed.size() && static_cast<std::uint8_t>(allowed[at]) == byte ? n + 1 : -1;
      },
      [&](std::int64_t id) { ids.push_back(id); });
  return ids;
}

TEST(TokenTrieTest, FindsEveryTokenThatATextBeginsWith) {
  const TokenTrie trie({"a", "abc", "b", "", "ab", "abd", "a", "bc"});
  EXPECT_THAT(matches(trie, "abc"), UnorderedElementsAre(0, 6, 4, 1));
  EXPECT_THAT(matches(trie, "abx"), UnorderedElementsAre(0, 6, 4));
  EXPECT_THAT(matches(trie, "bcd"), ElementsAre(2, 7));
  EXPECT_THAT(matches(trie, "x"), ElementsAre());
  EXPECT_THAT(matches(trie, ""), ElementsAre());
}

TEST(TokenTrieTest, OfNothingIsEmpty) {
  EXPECT_THAT(matches(TokenTrie({}), "a"), ElementsAre());
  EXPECT_THAT(matches(TokenTrie({"", ""}), "a"), ElementsAre());
}

TEST(TokenBytesTest, AreThoseThatTokensAddToAText) {
  const testing::TinyModel model;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model.path());
  const std::vector<std::string> bytes = token_bytes(tokenizer);
  ASSERT_EQ(std::ssize(bytes), tokenizer.vocab_size());
  for (const char* text : {"Hello, world\n", "Na\u00efve \u6f22\U0001f600 {\"a\": [1, 2]}", "\t  x"}) {
    std::string joined;
    for (const std::int64_t id : tokenizer.encode(text, {.add_special_tokens = false}))
      joined += bytes[static_cast<std::size_t>(id)];
    EXPECT_EQ(joined, text);
  }
  EXPECT_EQ(bytes[502], "");  // <|im_end|>
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_TRUE(std::ranges::find(bytes, std::string(1, static_cast<char>(byte))) != bytes.end()) << byte;
}

TEST(TokenBytesTest, OfMetaspacesAndByteTokens) {
  Json vocabulary = {{"<unk>", 0},  {"<s>", 1},           {"<0x0A>", 2}, {"<0xE6>", 3},
                     {"\u2581", 4}, {"\u2581a\u2581", 5}, {"b", 6}};
  const Tokenizer tokenizer = Tokenizer::from_json({{"added_tokens",
                                                     {{{"id", 1},
                                                       {"content", "<s>"},
                                                       {"special", true},
                                                       {"single_word", false},
                                                       {"lstrip", false},
                                                       {"rstrip", false},
                                                       {"normalized", false}}}},
                                                    {"normalizer", nullptr},
                                                    {"pre_tokenizer", nullptr},
                                                    {"post_processor", nullptr},
                                                    {"decoder", {{"type", "ByteFallback"}}},
                                                    {"model",
                                                     {{"type", "BPE"},
                                                      {"unk_token", "<unk>"},
                                                      {"byte_fallback", true},
                                                      {"vocab", vocabulary},
                                                      {"merges", Json::array()}}}});
  EXPECT_THAT(token_bytes(tokenizer), ElementsAre("<unk>", "", "\n", "\xe6", " ", " a ", "b"));
}

}  // namespace
}  // namespace mneme
