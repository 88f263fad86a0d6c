#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/json.h"

namespace mneme {

/// Text cut into pieces. The pieces are in order and do not overlap; what lies between them is dropped.
struct PieceList {
  struct Piece {
    std::size_t begin;
    std::size_t end;
    bool at_start;  ///< as in NormalizedText
  };

  std::string text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

/// Cuts text into the pieces that the model encodes one by one, and may respell them. Constant once built.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  /// Cuts each piece further. No piece is empty, before or after. Linear in the text but for what a regex costs.
  virtual void split(PieceList& list) const = 0;
};

/// Builds the "pre_tokenizer" of a tokenizer.json; null gives nullptr. Errors as in make_normalizer.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, std::string_view name);

}  // namespace mneme
