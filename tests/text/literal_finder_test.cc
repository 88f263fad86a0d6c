#include "mneme/text/literal_finder.h"

#include <gtest/gtest.h>

namespace mneme {
namespace {

TEST(LiteralFinderTest, FindsTheLeftmostThenTheLongest) {
  LiteralFinder finder;
  for (const auto& [literal, value] : {std::pair{"ab", 1}, {"abcd", 2}, {"bcde", 3}, {"x", 4}})
    finder.add(literal, value);
  const auto found = finder.find("-abcde", 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value, 2);
  EXPECT_EQ(found->begin, 1u);
  EXPECT_EQ(found->end, 5u);
  EXPECT_EQ(finder.find("abcx", 0)->value, 1);
  EXPECT_EQ(finder.find("abcx", 2)->value, 4);
  EXPECT_FALSE(finder.find("abcx", 4));
  EXPECT_FALSE(finder.find("", 0));
}

TEST(LiteralFinderTest, TakesAnyBytesAndTheLastValue) {
  LiteralFinder finder;
  EXPECT_FALSE(finder.find("a", 0));
  const std::string zero("\0\xff", 2);
  finder.add(zero, 1);
  finder.add(zero, 7);
  const auto found = finder.find("a" + zero, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value, 7);
  EXPECT_FALSE(finder.find(zero.substr(0, 1), 0));  // a literal's beginning is not a match
}

}  // namespace
}  // namespace mneme
