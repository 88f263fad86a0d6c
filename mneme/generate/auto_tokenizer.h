#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/text/chat_template.h"
#include "mneme/text/tokenizer.h"

namespace mneme {

/// Texts as a model takes them: what `encode` returns, and what else generate() reads where it is given.
struct EncodedInputs {
  at::Tensor input_ids = {};       ///< [B, T] int64
  at::Tensor attention_mask = {};  ///< [B, T] int64, 0 = padding; undefined: all real
  /// [B, T, E], what the model reads for these tokens (CausalLM::embed): without input_ids, or beside them, who are
  /// then there for the output and for processors alone.
  at::Tensor inputs_embeds = {};
  /// [B, T] int64, positions of these tokens; new ones count on from the last. Undefined: counted from 0.
  at::Tensor position_ids = {};
};

struct ChatMessage {
  std::string role = {};  ///< "system" | "user" | "assistant" | ...
  std::string content = {};
};

/// A model's tokenizer and chat template, with tensors at the border. Constant; threads may share it.
class TextTokenizer {
 public:
  explicit TextTokenizer(Tokenizer tokenizer);

  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }

  /// One text: [1, T]. Throws what Tokenizer::encode throws.
  EncodedInputs encode(std::string_view text, EncodeOptions options = {}) const;
  /// Several texts: [B, longest], padded on the left.
  EncodedInputs encode(const std::vector<std::string>& texts, EncodeOptions options = {}) const;

  /// ids: [T] or [1, T] integers. Throws Error(kInvalidArgument) for other shapes, Error(kOutOfRange) for unknown ids.
  std::string decode(const at::Tensor& ids, DecodeOptions options = {}) const;
  std::string decode(std::span<const std::int64_t> ids, DecodeOptions options = {}) const {
    return tokenizer_.decode(ids, options);
  }
  std::string decode(const std::vector<std::int64_t>& ids, DecodeOptions options = {}) const {
    return tokenizer_.decode(ids, options);
  }

  bool has_chat_template() const noexcept { return tokenizer_.chat_template() != nullptr; }

  /// The messages as the model was trained to see them. The text holds its special tokens: encode it with
  /// {.add_special_tokens = false}. Throws Error(kInvalidArgument) if the model has no template, or with the template's
  /// own words if it refuses the messages.
  std::string apply_chat_template(const std::vector<ChatMessage>& messages, ChatTemplateOptions options = {}) const;
  /// The same for messages as JSON objects (tool calls, content in parts).
  std::string apply_chat_template(const Json& messages, ChatTemplateOptions options = {}) const;

 private:
  Tokenizer tokenizer_;
  std::shared_ptr<const ChatTemplate> template_;  // parsed when there is one
  std::string template_error_;                    // why it could not be
};

/// Loads tokenizers under the name that users of transformers know.
struct AutoTokenizer {
  /// A folder with tokenizer.json, or a .gguf file. Throws what Tokenizer::from_pretrained throws.
  static TextTokenizer from_pretrained(const std::string& path);
};

}  // namespace mneme
