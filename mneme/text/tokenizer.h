#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/gguf_file.h"
#include "mneme/base/json.h"
#include "mneme/text/tokenizer_parts.h"

namespace mneme {

struct EncodeOptions {
  bool add_special_tokens = true;  ///< what the post-processor adds: a BOS, an EOS
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Text to token ids and back, with the results of Hugging Face `tokenizers` as transformers 5 uses them.
/// A constant value: copies share everything, and threads may share one.
class Tokenizer {
 public:
  /// Reads a folder with tokenizer.json (and tokenizer_config.json, special_tokens_map.json, chat_template.jinja,
  /// additional_chat_templates/), a tokenizer.json alone, or a .gguf file. Throws Error(kIo) if there is no such file,
  /// Error(kCorruptData) naming what is wrong in it, Error(kUnsupported) naming a component that is not supported.
  static Tokenizer from_pretrained(const std::string& path);

  /// The same from parsed files, whose strings must be UTF-8 as parse_json makes sure; `config` is
  /// tokenizer_config.json or null, `name` is what errors call them.
  static Tokenizer from_json(const Json& tokenizer, const Json& config = {}, std::string_view name = "tokenizer.json");

  /// The same from a GGUF file's metadata. `file` need not outlive the call.
  static Tokenizer from_gguf(const GgufFile& file);

  explicit Tokenizer(TokenizerParts parts);

  /// Time is O(n log n) in the text's bytes. Invalid UTF-8 counts as U+FFFD, one for each maximal invalid sequence.
  /// Throws Error(kInvalidArgument) if a regex of the tokenizer gives up on the text.
  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Valid UTF-8. Ids without a token (holes in the vocabulary) give nothing.
  /// Throws Error(kOutOfRange) naming the id and the size of the vocabulary.
  std::string decode(std::span<const std::int64_t> ids, DecodeOptions options = {}) const;

  /// One past the largest id, added tokens included. A model's logits may be wider.
  std::int64_t vocab_size() const noexcept;

  std::optional<std::int64_t> token_to_id(std::string_view token) const;
  /// The token as the vocabulary spells it ("Ġthe", "▁the", "<0x0A>"); nothing for an id without a token.
  std::optional<std::string> id_to_token(std::int64_t id) const;
  /// Whether decode skips the id with skip_special_tokens.
  bool is_special(std::int64_t id) const;
  const std::map<TokenId, AddedToken>& added_tokens() const noexcept;

  /// The token that has a role: "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token",
  /// "mask_token"; nullptr if none has. Lives as long as the tokenizer or a copy.
  const SpecialToken* special_token(std::string_view role) const;
  const SpecialToken* bos() const { return special_token("bos_token"); }
  const SpecialToken* eos() const { return special_token("eos_token"); }
  const SpecialToken* unk() const { return special_token("unk_token"); }
  const SpecialToken* pad() const { return special_token("pad_token"); }
  /// All of them, by role: what transformers hands to a chat template.
  const std::map<std::string, SpecialToken, std::less<>>& special_tokens() const noexcept;

  /// The text of a chat template, or nullptr if the files have none of that name.
  const std::string* chat_template(std::string_view name = "default") const;

 private:
  friend class Detokenizer;
  class WordEncoder;
  std::optional<std::string_view> decoder_text(std::int64_t id) const;

  std::shared_ptr<const TokenizerParts> parts_;
};

}  // namespace mneme
