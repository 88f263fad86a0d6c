#include "mneme/text/sentencepiece_merges.h"

#include <gtest/gtest.h>

namespace mneme {
namespace {

struct Pieces {
  explicit Pieces(std::vector<std::string> texts) : tokens(std::move(texts)) {
    for (const std::string& token : tokens) vocabulary.add(token, vocabulary.id_limit());
  }
  MergeTable merges(const std::vector<double>& scores) const {
    return sentencepiece_merges(vocabulary, tokens, scores);
  }

  std::vector<std::string> tokens;
  Vocabulary vocabulary;
};

TEST(SentencepieceMergesTest, RanksEveryCutByScore) {
  const Pieces pieces({"a", "b", "ab", "ba", "aba"});
  const MergeTable merges = pieces.merges({0, 0, -2, -1, -3});
  EXPECT_EQ(merges.size(), 4u);
  EXPECT_EQ(merges.rank(1, 0), 0u);  // b a
  EXPECT_EQ(merges.rank(0, 1), 1u);  // a b
  EXPECT_EQ(merges.rank(2, 0), 2u);  // ab a before a ba: the longer left part
  EXPECT_EQ(merges.rank(0, 3), 3u);
  EXPECT_EQ(merges.merged(3), 4);
}

TEST(SentencepieceMergesTest, CutsBetweenCharactersOnly) {
  const Pieces pieces({"é", "\xc3", "\xa9", "▁", "▁é"});
  const MergeTable merges = pieces.merges(std::vector<double>(5, 0));
  EXPECT_EQ(merges.size(), 1u);
  EXPECT_EQ(merges.rank(3, 0), 0u);
}

TEST(SentencepieceMergesTest, LeavesOutTextsThatHaveALaterId) {
  Pieces pieces({"a", "aa"});
  pieces.tokens.push_back("aa");
  pieces.vocabulary.add("aa", 2);
  const MergeTable merges = pieces.merges({0, 0, -1});
  EXPECT_EQ(merges.size(), 1u);
  EXPECT_EQ(merges.merged(merges.rank(0, 0)), 2);
}

}  // namespace
}  // namespace mneme
