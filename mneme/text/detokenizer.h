#pragma once

#include <cstdint>
#include <string>

#include "mneme/text/token_decoder.h"
#include "mneme/text/tokenizer.h"

namespace mneme {

/// Decodes ids as they come. What put() returns is final: all pieces and finish() joined are decode() of all ids, for
/// every tokenizer, and no piece ever ends inside a UTF-8 character. Text that later ids could still change is held
/// back; so a run of <0x..> byte tokens comes out when it ends.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, DecodeOptions options = {});

  /// The text that is now certain, often empty. Throws Error(kOutOfRange) naming the id and the size of the vocabulary.
  std::string put(std::int64_t id);

  /// The rest. Afterwards the detokenizer is as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  TokenDecoder::Stream stream_;
};

}  // namespace mneme
