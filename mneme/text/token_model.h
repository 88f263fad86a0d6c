#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mneme/text/vocabulary.h"

namespace mneme {

/// The last step of encoding: cuts one piece of pre-tokenized text into tokens of a vocabulary. Constant once built, so
/// shared by threads freely.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// "BPE", "Unigram", ..., as in tokenizer.json.
  virtual std::string_view type() const noexcept = 0;

  virtual const Vocabulary& vocabulary() const noexcept = 0;

  /// Appends the ids of a non-empty piece of valid UTF-8.
  virtual void encode(std::string_view piece, std::vector<std::int64_t>& ids) const = 0;
};

}  // namespace mneme
