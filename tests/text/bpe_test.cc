#include "mneme/text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using Ids = std::vector<std::int64_t>;

Vocabulary vocabulary_of(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (const std::string& token : tokens) vocabulary.add(token, vocabulary.id_limit());
  return vocabulary;
}

Ids encode(const Bpe& bpe, std::string_view piece) {
  Ids ids;
  bpe.encode(piece, ids);
  return ids;
}

TEST(BpeTest, MergesTheLowestRankFirstThenTheLeftmost) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "ab", "bc", "aa"});
  MergeTable merges;
  merges.add(1, 2, 4);
  merges.add(0, 1, 3);
  merges.add(0, 0, 5);
  const Bpe bpe(vocabulary, merges, {});
  EXPECT_EQ(encode(bpe, "abc"), (Ids{0, 4}));
  EXPECT_EQ(encode(bpe, "aba"), (Ids{3, 0}));
  EXPECT_EQ(encode(bpe, "aaa"), (Ids{5, 0}));
  EXPECT_EQ(encode(bpe, "xay"), (Ids{0}));  // unknown characters vanish without an unk token
}

/// The algorithm in its simplest form.
Ids merge_slowly(const MergeTable& merges, std::vector<TokenId> tokens) {
  for (;;) {
    std::size_t best = 0;
    std::uint32_t best_rank = MergeTable::kNoRank;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::uint32_t rank = merges.rank(tokens[i], tokens[i + 1]);
      if (rank < best_rank) best = i, best_rank = rank;
    }
    if (best_rank == MergeTable::kNoRank) return Ids(tokens.begin(), tokens.end());
    tokens[best] = merges.merged(best_rank);
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BpeTest, EqualsTheSimplestFormOnRandomVocabularies) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    Vocabulary vocabulary = vocabulary_of({"a", "b", "c"});
    MergeTable merges;
    for (int i = 0; i < 30; ++i) {
      const auto any = [&] { return static_cast<TokenId>(random() % static_cast<unsigned>(vocabulary.id_limit())); };
      const TokenId left = any(), right = any();
      const std::string merged = std::string(vocabulary.text(left)) + std::string(vocabulary.text(right));
      if (merged.size() > 8 || merges.rank(left, right) != MergeTable::kNoRank) continue;
      if (vocabulary.find(merged) == kNoToken) vocabulary.add(merged, vocabulary.id_limit());
      merges.add(left, right, vocabulary.find(merged));
    }
    const Bpe bpe(vocabulary, merges, {});
    for (int text = 0; text < 20; ++text) {
      std::string piece(1 + random() % 40, 'a');
      std::vector<TokenId> tokens;
      for (char& c : piece) tokens.push_back(static_cast<TokenId>((c = static_cast<char>('a' + random() % 3)) - 'a'));
      EXPECT_EQ(encode(bpe, piece), merge_slowly(merges, tokens)) << piece;
    }
  }
}

TEST(BpeTest, TreatsUnknownCharacters) {
  const Vocabulary vocabulary = vocabulary_of({"a", "<unk>", "<0xC3>", "<0xA9>"});
  EXPECT_EQ(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>"}), "xya"), (Ids{1, 1, 0}));
  EXPECT_EQ(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>", .fuse_unk = true}), "xyax"), (Ids{1, 0, 1}));
  EXPECT_EQ(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>", .byte_fallback = true}), "éa"), (Ids{2, 3, 0}));
  EXPECT_EQ(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>", .byte_fallback = true}), "è"), (Ids{1}));  // no <0xA8>
  testing::thrown(ErrorKind::kCorruptData, [&] { Bpe(vocabulary, {}, {.unk_token = "no"}); });
}

TEST(BpeTest, DecoratesAndIgnoresMerges) {
  const Vocabulary vocabulary = vocabulary_of({"a", "##b", "##b</w>", "ab"});
  EXPECT_EQ(encode(Bpe(vocabulary, {}, {.continuing_subword_prefix = "##", .end_of_word_suffix = "</w>"}), "abb"),
            (Ids{0, 1, 2}));
  EXPECT_EQ(encode(Bpe(vocabulary, {}, {.ignore_merges = true}), "ab"), (Ids{3}));
}

TEST(BpeTest, TakesALongPieceWithoutQuadraticTime) {
  Vocabulary vocabulary = vocabulary_of({"x", "xx", "xxxx"});
  MergeTable merges;
  merges.add(0, 0, 1);
  merges.add(1, 1, 2);
  EXPECT_EQ(encode(Bpe(vocabulary, merges, {}), std::string(1 << 20, 'x')).size(), std::size_t{1} << 18);
}

TEST(MergeTableTest, KeepsTheLaterOfTwoRanks) {
  MergeTable merges;
  EXPECT_EQ(merges.rank(0, 1), MergeTable::kNoRank);
  for (TokenId i = 0; i < 1000; ++i) merges.add(i, i + 1, i);
  merges.add(0, 1, 7);
  EXPECT_EQ(merges.rank(0, 1), 1000u);
  EXPECT_EQ(merges.merged(1000), 7);
  EXPECT_EQ(merges.rank(999, 1000), 999u);
  EXPECT_EQ(merges.rank(1, 0), MergeTable::kNoRank);
}

}  // namespace
}  // namespace mneme
