#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "mneme/text/detokenizer.h"

namespace mneme {

/// Turns the tokens of one sequence into text as they come, never half a character: hand `callback()` to
/// GenerateOptions::on_token, and call `end()` afterwards for what was still held back.
class TextStreamer {
 public:
  TextStreamer(const Tokenizer& tokenizer, std::function<void(std::string_view)> write,
               DecodeOptions options = {.skip_special_tokens = true})
      : detokenizer_(tokenizer, options), n_known_(tokenizer.vocab_size()), write_(std::move(write)) {}

  /// Models have rows for more ids than their tokenizers have tokens; those have no text.
  void put(std::int64_t id) {
    if (id < n_known_) emit(detokenizer_.put(id));
  }
  void end() { emit(detokenizer_.finish()); }

  /// For a batch of one; the streamer must outlive it.
  std::function<void(std::int64_t, std::int64_t)> callback() {
    return [this](std::int64_t, std::int64_t id) { put(id); };
  }

 private:
  void emit(const std::string& text) {
    if (!text.empty()) write_(text);
  }

  Detokenizer detokenizer_;
  std::int64_t n_known_;
  std::function<void(std::string_view)> write_;
};

}  // namespace mneme
