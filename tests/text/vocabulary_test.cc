#include "mneme/text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

TEST(VocabularyTest, FindsBothWays) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.find("a"), kNoToken);
  for (int id = 0; id < 3000; ++id) vocabulary.add("token" + std::to_string(id), id);
  vocabulary.add("", 3000);
  for (int id = 0; id < 3000; ++id) {
    EXPECT_EQ(vocabulary.find("token" + std::to_string(id)), id);
    EXPECT_EQ(vocabulary.text(id), "token" + std::to_string(id));
  }
  EXPECT_EQ(vocabulary.find(""), 3000);
  EXPECT_EQ(vocabulary.find("token3000"), kNoToken);
  EXPECT_EQ(vocabulary.size(), 3001);
  EXPECT_EQ(vocabulary.id_limit(), 3001);
}

TEST(VocabularyTest, HasHolesAndTakesTheLastOfTwoIds) {
  Vocabulary vocabulary;
  vocabulary.add("a", 5);
  vocabulary.add("a", 2);
  EXPECT_EQ(vocabulary.find("a"), 2);
  EXPECT_EQ(vocabulary.text(5), "a");
  EXPECT_EQ(vocabulary.size(), 1);
  EXPECT_EQ(vocabulary.id_limit(), 6);
  EXPECT_FALSE(vocabulary.has(3));
  EXPECT_FALSE(vocabulary.has(-1));
  EXPECT_FALSE(vocabulary.has(6));
}

TEST(VocabularyTest, RefusesImpossibleIds) {
  Vocabulary vocabulary;
  vocabulary.add("a", 0);
  EXPECT_THAT(testing::thrown(ErrorKind::kCorruptData, [&] { vocabulary.add("b", 0); }),
              HasSubstr("two tokens, \"a\" and \"b\""));
  EXPECT_THAT(testing::thrown(ErrorKind::kCorruptData, [&] { vocabulary.add("b", -1); }), HasSubstr("-1"));
  EXPECT_THAT(testing::thrown(ErrorKind::kCorruptData, [&] { vocabulary.add("b", kMaxTokenId + 1); }),
              HasSubstr("0..4194303"));
}

}  // namespace
}  // namespace mneme
