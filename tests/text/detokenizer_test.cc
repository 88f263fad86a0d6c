#include "mneme/text/detokenizer.h"

#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

/// The two halves of "é", a letter, a hole, a special token.
Tokenizer tokenizer() {
  return Tokenizer::from_json(parse_json(R"({"decoder": {"type": "ByteLevel"},
      "added_tokens": [{"id": 4, "content": "<s>", "special": true}],
      "model": {"type": "BPE", "vocab": {"Ã": 0, "©": 1, "a": 2, "b": 5}, "merges": []}})",
                                         "small"));
}

TEST(DetokenizerTest, GivesWholeCharactersOnly) {
  Detokenizer detokenizer(tokenizer());
  EXPECT_EQ(detokenizer.put(0), "");
  EXPECT_EQ(detokenizer.put(1), "é");
  EXPECT_EQ(detokenizer.put(2), "a");
  EXPECT_EQ(detokenizer.put(4), "<s>");
  EXPECT_EQ(detokenizer.put(3), "");  // an id without a token
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(DetokenizerTest, IsAsNewAfterTheEnd) {
  Detokenizer detokenizer(tokenizer());
  EXPECT_EQ(detokenizer.put(0), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.put(1), "\uFFFD");  // does not join the half of the text before
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(DetokenizerTest, SkipsSpecialTokensWhenAsked) {
  Detokenizer detokenizer(tokenizer(), {.skip_special_tokens = true});
  EXPECT_EQ(detokenizer.put(0), "");
  EXPECT_EQ(detokenizer.put(4), "");
  EXPECT_EQ(detokenizer.put(1), "é");
}

TEST(DetokenizerTest, RefusesIdsOutsideTheVocabularyAndGoesOn) {
  Detokenizer detokenizer(tokenizer());
  EXPECT_EQ(detokenizer.put(0), "");
  for (const std::int64_t id : {std::int64_t{6}, std::int64_t{-1}}) {
    EXPECT_EQ(testing::thrown(ErrorKind::kOutOfRange, [&] { detokenizer.put(id); }),
              fmt::format("token id {} is outside the vocabulary of 6 tokens", id));
  }
  EXPECT_EQ(detokenizer.put(1), "é");
}

}  // namespace
}  // namespace mneme
