#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/text/token_model.h"

namespace mneme {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";  ///< what tokens behind the first one of a piece begin with
  std::size_t max_input_chars_per_word = 100;    ///< a longer piece is unknown
};

/// The longest token that a piece begins with, then the longest of the rest, and so on; a piece of which a part is no
/// token is unknown as a whole. Time is that of the piece times the sizes that tokens have. Source: Devlin et al. 2018,
/// arXiv:1810.04805.
class WordPiece final : public TokenModel {
 public:
  /// Throws Error(kCorruptData) if unk_token is not in the vocabulary.
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);

  std::string_view type() const noexcept override { return "WordPiece"; }
  const Vocabulary& vocabulary() const noexcept override { return vocabulary_; }
  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override;

 private:
  /// Appends the longest token that the piece has at `start`. Returns its bytes of the piece, or 0.
  std::size_t longest_token(std::string_view piece, std::size_t start, std::vector<std::int64_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<std::size_t> sizes_;  ///< in bytes that some token has, the largest first: no other can match
  WordPieceOptions options_;
  TokenId unk_id_;
};

/// Builds the "model" of a tokenizer.json whose type is WordPiece. Throws Error(kCorruptData) for missing or mistyped
/// keys.
std::unique_ptr<WordPiece> make_word_piece(const Json& model, std::string_view name);

}  // namespace mneme
