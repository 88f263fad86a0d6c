#include "mneme/text/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;

/// The segments of a text, tokens in brackets.
std::vector<std::string> split(const AddedToken& token, std::string_view text) {
  Vocabulary vocabulary;
  AddedTokens tokens;
  tokens.add(token, vocabulary, nullptr);
  tokens.finish();
  std::vector<std::string> parts;
  for (const auto& [begin, end, id] : tokens.split(text, token.normalized)) {
    const std::string part(text.substr(begin, end - begin));
    parts.push_back(id == kNoToken ? part : "[" + part + "]");
  }
  return parts;
}

TEST(AddedTokensTest, TakesSpacesAlong) {
  EXPECT_THAT(split({.content = "<x>"}, "a <x> b"), ElementsAre("a ", "[<x>]", " b"));
  EXPECT_THAT(split({.content = "<x>", .lstrip = true}, "a \n<x> b"), ElementsAre("a", "[ \n<x>]", " b"));
  EXPECT_THAT(split({.content = "<x>", .rstrip = true}, "a <x>\u3000 b"), ElementsAre("a ", "[<x>\u3000 ]", "b"));
  EXPECT_THAT(split({.content = "<x>", .lstrip = true, .rstrip = true}, "<x> <x>"), ElementsAre("[<x> ]", "[<x>]"));
}

TEST(AddedTokensTest, MatchesSingleWords) {
  const AddedToken token{.content = "day", .single_word = true};
  EXPECT_THAT(split(token, "day"), ElementsAre("[day]"));
  EXPECT_THAT(split(token, "a day, days éday day_"), ElementsAre("a ", "[day]", ", days éday day_"));
}

TEST(AddedTokensTest, GivesIds) {
  Vocabulary vocabulary;
  vocabulary.add("a", 0);
  vocabulary.add("b", 1);
  AddedTokens tokens;
  tokens.add({.content = "b", .special = true}, vocabulary, nullptr);
  tokens.add({.content = "new"}, vocabulary, nullptr);
  tokens.add({.content = "newer"}, vocabulary, nullptr);
  tokens.add({.content = ""}, vocabulary, nullptr);
  tokens.add({.content = "new", .lstrip = true}, vocabulary, nullptr);
  tokens.finish();
  EXPECT_EQ(tokens.find("b"), 1);
  EXPECT_EQ(tokens.find("new"), 2);
  EXPECT_EQ(tokens.find("newer"), 3);
  EXPECT_EQ(tokens.find("a"), kNoToken);
  EXPECT_TRUE(tokens.at(2)->lstrip);
  EXPECT_TRUE(tokens.is_special("b"));
  EXPECT_FALSE(tokens.is_special("new"));
  EXPECT_EQ(tokens.at(-1), nullptr);
  EXPECT_EQ(tokens.split("newerb", true).size(), 2u);
}

TEST(AddedTokensTest, ReadsJson) {
  EXPECT_FALSE(AddedToken::from_json(Json{{"content", "a"}, {"special", true}}, "test").normalized);
  EXPECT_TRUE(AddedToken::from_json(Json{{"content", "a"}}, "test").normalized);
  testing::thrown(ErrorKind::kCorruptData, [] { AddedToken::from_json(Json::object(), "test"); });
  testing::thrown(ErrorKind::kCorruptData, [] { AddedToken::from_json(Json{{"content", 1}}, "test"); });
  testing::thrown(ErrorKind::kCorruptData, [] {
    AddedToken::from_json(Json{{"content", "a"}, {"lstrip", "no"}}, "test");
  });
}

}  // namespace
}  // namespace mneme
