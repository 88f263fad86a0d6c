#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/text/literal_finder.h"
#include "mneme/text/normalizer.h"
#include "mneme/text/vocabulary.h"

namespace mneme {

/// A token that is found in the text before the model sees it.
struct AddedToken {
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes the whitespace to its left along
  bool rstrip = false;       ///< and to its right
  bool normalized = true;    ///< looked for in the normalized text
  bool special = false;      ///< may be skipped when decoding

  bool operator==(const AddedToken&) const = default;

  /// Throws Error(kCorruptData) if "content" is missing or a key has the wrong type.
  static AddedToken from_json(const Json& json, std::string_view name);
};

/// The added tokens of a tokenizer: a vocabulary over that of the model.
class AddedTokens {
 public:
  /// A stretch of text: an added token (id), or what the model is to encode (kNoToken).
  struct Segment {
    std::size_t begin;
    std::size_t end;
    TokenId id;
  };

  /// Adds or changes a token. Its id is the one that its content has in the model's vocabulary or here, else the next
  /// free one. `normalizer` may be null. An empty content is ignored.
  void add(const AddedToken& token, const Vocabulary& model, const Normalizer* normalizer);

  /// Adds or changes the token that has this id, which lies in 0..kMaxTokenId. For tokens that are not normalized.
  void add_at(TokenId id, const AddedToken& token);

  /// Must be called after the last add() and before split().
  void finish();

  /// Cuts text at the tokens of one kind, those matched before or those matched after normalization: leftmost first,
  /// then longest. Linear in the text for tokens of bounded length.
  std::vector<Segment> split(std::string_view text, bool normalized) const;

  TokenId find(std::string_view content) const;
  const AddedToken* at(std::int64_t id) const;
  /// The text that the decoder gets for an added token: its normalized form if it is matched normalized.
  std::string_view decoder_text(std::int64_t id) const { return decoder_texts_.at(static_cast<TokenId>(id)); }
  bool is_special(std::string_view text) const { return special_.contains(std::string(text)); }
  const std::map<TokenId, AddedToken>& by_id() const noexcept { return by_id_; }

 private:
  std::map<TokenId, AddedToken> by_id_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<TokenId, std::string> decoder_texts_;
  std::unordered_set<std::string> special_;
  LiteralFinder raw_finder_;
  LiteralFinder normalized_finder_;
};

}  // namespace mneme
