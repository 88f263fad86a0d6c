#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/text/byte_token.h"
#include "mneme/text/token_model.h"

namespace mneme {

/// Pairs of tokens and what they merge into, ranked: the first pair added merges first. A flat hash table.
class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = UINT32_MAX;

  void reserve(std::size_t n_merges);

  /// A pair that is there already takes the new, later rank.
  void add(TokenId left, TokenId right, TokenId merged);

  /// The pair's rank, or kNoRank. Expected cost: one cache line.
  std::uint32_t rank(TokenId left, TokenId right) const noexcept;

  TokenId merged(std::uint32_t rank) const noexcept { return merged_[rank]; }
  std::size_t size() const noexcept { return merged_.size(); }

 private:
  struct Slot {
    std::uint64_t pair = UINT64_MAX;
    std::uint32_t rank = kNoRank;
  };
  Slot& slot_of(std::uint64_t pair) noexcept;
  void grow(std::size_t n_slots);

  std::vector<Slot> slots_;      ///< open addressing, linear probing, at most half full; a power of two
  std::vector<TokenId> merged_;  ///< by rank
};

struct BpeOptions {
  std::optional<std::string> unk_token = {};
  std::string continuing_subword_prefix = {};
  std::string end_of_word_suffix = {};
  bool fuse_unk = false;       ///< neighbouring unknown characters become one unk token
  bool byte_fallback = false;  ///< an unknown character becomes its bytes' tokens <0x00>..<0xFF>
  bool ignore_merges = false;  ///< a piece that is a token is that token, whatever the merges say
};

/// Byte pair encoding: starts from characters and merges the neighbours of lowest rank, leftmost first.
/// A piece of n characters costs O(n log n) time. Source: Sennrich et al. 2016, arXiv:1508.07909.
class Bpe final : public TokenModel {
 public:
  /// Throws Error(kCorruptData) if unk_token is not in the vocabulary.
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options);

  std::string_view type() const noexcept override { return "BPE"; }
  const Vocabulary& vocabulary() const noexcept override { return vocabulary_; }
  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override;

 private:
  std::vector<TokenId> initial_tokens(std::string_view piece) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  TokenId unk_ = kNoToken;
  ByteTokens byte_tokens_;  ///< if byte_fallback
};

}  // namespace mneme
