#pragma once

#include <map>
#include <memory>
#include <string>

#include "mneme/base/gguf_file.h"
#include "mneme/base/json.h"
#include "mneme/text/added_tokens.h"
#include "mneme/text/normalizer.h"
#include "mneme/text/post_processor.h"
#include "mneme/text/pre_tokenizer.h"
#include "mneme/text/token_decoder.h"
#include "mneme/text/token_model.h"

namespace mneme {

/// A token with a role: "bos_token", "eos_token", ...
struct SpecialToken {
  std::string text;
  TokenId id;
};

/// What a tokenizer consists of, whatever kind of file it comes from.
struct TokenizerParts {
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<Normalizer> normalizer;       ///< may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  ///< may be null
  AddedTokens added_tokens;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::map<std::string, SpecialToken, std::less<>> special_tokens;  ///< by role
  std::map<std::string, std::string, std::less<>> chat_templates;   ///< by name; "default" is the one without a name

  /// Adds a token as a special one unless it is an added token already, and gives it the role.
  void set_special_token(const std::string& role, const AddedToken& token);
};

/// Reads tokenizer.json and tokenizer_config.json (may be empty or null). `name` is what errors call the files.
TokenizerParts read_tokenizer_json(const Json& tokenizer, const Json& config, std::string_view name);

/// Reads the "tokenizer.*" metadata of a GGUF file.
TokenizerParts read_tokenizer_gguf(const GgufFile& file);

}  // namespace mneme
