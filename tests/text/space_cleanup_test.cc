#include "mneme/text/space_cleanup.h"

#include <gtest/gtest.h>

#include <random>

namespace mneme {
namespace {

TEST(SpaceCleanupTest, RemovesSpacesBeforePunctuationAndContractions) {
  EXPECT_EQ(clean_up_spaces("a . b ? c ! d , e"), "a. b? c! d, e");
  EXPECT_EQ(clean_up_spaces("do n't I 'm it 's we 've they 're"), "don't I'm it's we've they're");
  EXPECT_EQ(clean_up_spaces("rock ' n ' roll"), "rock'n'roll");
  EXPECT_EQ(clean_up_spaces("I do not . "), "I do not. ");
  EXPECT_EQ(clean_up_spaces(""), "");
  EXPECT_EQ(clean_up_word_piece("I do not ."), "I don't.");
}

TEST(SpaceCleanupTest, LaterStepsSeeWhatEarlierOnesLeft) {
  EXPECT_EQ(clean_up_spaces("a ' . b"), "a '. b");
  EXPECT_EQ(clean_up_spaces("a  . b"), "a . b");
}

/// What is said to be certain must not depend on what follows, and must not reach across it.
TEST(SpaceCleanupTest, WhatIsCertainStaysWhateverFollows) {
  std::mt19937 random(5);
  const std::string characters = "nt'sm .,ae";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 16, 'a');
    for (char& c : text) c = characters[random() % characters.size()];
    for (std::size_t end = 0; end <= text.size(); ++end) {
      const std::size_t certain = certain_before_cleanup(std::string_view(text).substr(0, end));
      ASSERT_LE(certain, end);
      ASSERT_EQ(clean_up_spaces(text.substr(0, certain)) + clean_up_spaces(text.substr(certain)), clean_up_spaces(text))
          << text;
    }
  }
}

}  // namespace
}  // namespace mneme
