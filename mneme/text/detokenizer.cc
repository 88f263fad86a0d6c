#include "mneme/text/detokenizer.h"

#include "mneme/base/error.h"

namespace mneme {

Detokenizer::Detokenizer(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options), stream_(tokenizer_.parts_->decoder.start()) {}

std::string Detokenizer::put(std::int64_t id) {
  const std::int64_t vocab_size = tokenizer_.vocab_size();
  check(id >= 0 && id < vocab_size, ErrorKind::kOutOfRange, "token id {} is outside the vocabulary of {} tokens", id,
        vocab_size);
  const auto text = tokenizer_.decoder_text(id);
  if (!text || (options_.skip_special_tokens && tokenizer_.is_special(id))) return {};
  return stream_.put(*text);
}

std::string Detokenizer::finish() {
  std::string rest = stream_.finish();
  stream_ = tokenizer_.parts_->decoder.start();
  return rest;
}

}  // namespace mneme
