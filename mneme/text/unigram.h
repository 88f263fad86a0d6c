#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/text/byte_token.h"
#include "mneme/text/token_model.h"

namespace mneme {

struct UnigramOptions {
  std::optional<TokenId> unk_id = {};  ///< stands for a run of characters that no token spells
  bool byte_fallback = false;          ///< such a run becomes its bytes' tokens <0x00>..<0xFF>, if all are there
};

/// A unigram language model: the tokens of a piece are those whose scores sum to the most. Time is that of the piece
/// times the bytes that some token has in common with it at a character. Source: Kudo 2018, arXiv:1804.10959.
class Unigram final : public TokenModel {
 public:
  /// scores: by id, logarithms. Throws Error(kCorruptData) if unk_id is no token.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options);

  std::string_view type() const noexcept override { return "Unigram"; }
  const Vocabulary& vocabulary() const noexcept override { return vocabulary_; }
  /// Throws Error(kInvalidArgument) for a character that no token spells, if there is no unknown token.
  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override;

 private:
  /// The best way to a place in the text: its sum, and where its last token begins.
  struct Node {
    double score = 0;
    std::size_t start = 0;
    std::optional<TokenId> id;
    bool reached = false;
  };

  template <class Visit>
  void for_each_token_at(std::string_view text, Visit&& visit) const;
  std::vector<Node> best_paths(std::string_view piece) const;
  void append(std::string_view text, std::vector<std::int64_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  UnigramOptions options_;
  double unknown_score_;
  std::vector<TokenId> sorted_;  ///< by text
  ByteTokens byte_tokens_;       ///< if byte_fallback
};

/// Builds the "model" of a tokenizer.json whose type is Unigram. Throws Error(kCorruptData) for missing or mistyped
/// keys.
std::unique_ptr<Unigram> make_unigram(const Json& model, std::string_view name);

}  // namespace mneme
