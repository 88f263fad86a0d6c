#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/json.h"

namespace mneme {

/// One running step of decoding. Tokens arrive in parts of whole UTF-8 characters, each token closed by end_token(),
/// and leave towards `next` the same way, as soon as what comes later cannot change them. A part is only ever passed on
/// once, so what streams out is what decoding all at once gives.
class DecoderStage {
 public:
  explicit DecoderStage(DecoderStage* next) : next_(next) {}
  virtual ~DecoderStage() = default;

  virtual void part(std::string_view text) = 0;
  virtual void end_token() = 0;
  /// No more tokens will come. Called once.
  virtual void finish() { next_->finish(); }

 protected:
  DecoderStage* next_;  ///< nullptr only in the last stage
};

/// Turns the texts of tokens into text: the "decoder" of a tokenizer.json. Constant once built.
class TokenDecoder {
 public:
  /// A decoder in use, for one sequence of tokens.
  class Stream {
   public:
    /// Takes the next token, valid UTF-8, and returns the text that is now certain.
    std::string put(std::string_view token);
    /// Returns the rest. Nothing may be put afterwards.
    std::string finish();

   private:
    friend class TokenDecoder;
    std::unique_ptr<std::string> text_ = std::make_unique<std::string>();
    std::vector<std::unique_ptr<DecoderStage>> stages_;  ///< from last to first
  };

  /// null gives the decoder that joins tokens with spaces. `name` is what errors call the file.
  /// Throws Error(kCorruptData) for missing or mistyped keys, Error(kUnsupported) naming an unknown type or if the
  /// steps could make a text many times longer.
  TokenDecoder(const Json& json, std::string_view name);

  /// Adds transformers' clean_up_tokenization_spaces as the last step: "hello ." becomes "hello.".
  void add_space_cleanup();

  Stream start() const;

 private:
  template <class Stage, class... Args>
  void add(Args... args);
  void add_steps(const Json& json, std::string_view name);

  std::vector<std::function<std::unique_ptr<DecoderStage>(DecoderStage* next)>> steps_;
  double growth_ = 1;  ///< how many times longer the steps can make a text
};

}  // namespace mneme
