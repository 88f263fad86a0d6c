#include <algorithm>
#include <charconv>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/text/bpe_json.h"
#include "mneme/text/tokenizer_parts.h"
#include "mneme/text/unigram.h"
#include "mneme/text/word_piece.h"

namespace mneme {
namespace {

constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

const Json& part(const Json& tokenizer, const char* key) {
  static const Json none;
  const auto it = tokenizer.find(key);
  return it == tokenizer.end() ? none : *it;
}

std::unique_ptr<TokenModel> make_model(const Json& model, std::string_view name) {
  check(model.is_object(), ErrorKind::kCorruptData, "{}: there is no \"model\"", name);
  const std::string type = json_string(model, "type", "BPE", name);  // old files leave it out
  if (type == "Unigram") return make_unigram(model, name);
  if (type == "WordPiece") return make_word_piece(model, name);
  check(type == "BPE", ErrorKind::kUnsupported,
        "{}: the model type \"{}\" is not supported; supported are BPE, Unigram and WordPiece", name, type);
  return make_bpe(model, name);
}

/// A token of tokenizer_config.json: its text, or an object like those of "added_tokens". Nothing if null or missing.
std::optional<AddedToken> config_token(const Json& value, std::string_view name) {
  if (value.is_null()) return std::nullopt;
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.normalized = false;
  } else {
    token = AddedToken::from_json(value, name);
  }
  token.special = true;
  return token;
}

/// transformers adds what tokenizer_config.json lists and tokenizer.json lacks, or has with other flags.
void add_config_tokens(const Json& config, TokenizerParts& parts, std::string_view name) {
  const auto listed = config.find("added_tokens_decoder");
  if (listed == config.end() || listed->is_null()) return;
  check(listed->is_object(), ErrorKind::kCorruptData, "{}: \"added_tokens_decoder\" must be an object", name);
  std::vector<std::pair<std::int64_t, AddedToken>> tokens;
  for (const auto& [key, value] : listed->items()) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    check(error == std::errc() && end == key.data() + key.size(), ErrorKind::kCorruptData,
          "{}: \"added_tokens_decoder\" has the key \"{}\", which is not an id", name, key);
    tokens.emplace_back(id, AddedToken::from_json(value, name));
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [id, token] : tokens) {
    const AddedToken* known = parts.added_tokens.at(parts.added_tokens.find(token.content));
    if (!known || !(*known == token)) parts.added_tokens.add(token, parts.model->vocabulary(), parts.normalizer.get());
  }
}

void set_special_tokens(const Json& config, TokenizerParts& parts, std::string_view name) {
  for (const char* role : kRoles) {
    if (const auto token = config_token(part(config, role), name)) parts.set_special_token(role, *token);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (const Json& list = part(config, key); list.is_array()) {
      for (const Json& value : list) {
        if (const auto token = config_token(value, name)) parts.set_special_token("", *token);
      }
    }
  }
}

/// One template, or a list of named ones.
void set_chat_templates(const Json& config, TokenizerParts& parts, std::string_view name) {
  const Json& templates = part(config, "chat_template");
  if (templates.is_null()) return;
  if (templates.is_string()) {
    parts.chat_templates["default"] = templates.get<std::string>();
    return;
  }
  check(templates.is_array(), ErrorKind::kCorruptData, "{}: \"chat_template\" must be a string or a list", name);
  for (const Json& entry : templates) {
    check(entry.is_object(), ErrorKind::kCorruptData, "{}: an entry of \"chat_template\" must be an object", name);
    parts.chat_templates[json_string(entry, "name", "default", name)] = json_string(entry, "template", "", name);
  }
}

}  // namespace

void TokenizerParts::set_special_token(const std::string& role, const AddedToken& token) {
  if (added_tokens.find(token.content) == kNoToken) added_tokens.add(token, model->vocabulary(), normalizer.get());
  if (!role.empty()) special_tokens[role] = {token.content, added_tokens.find(token.content)};
}

TokenizerParts read_tokenizer_json(const Json& tokenizer, const Json& config, std::string_view name) {
  check(tokenizer.is_object(), ErrorKind::kCorruptData, "{}: a tokenizer must be an object, it is {}", name,
        tokenizer.type_name());
  check(config.is_object() || config.is_null(), ErrorKind::kCorruptData,
        "{}: the tokenizer_config must be an object, it is {}", name, config.type_name());
  TokenizerParts parts{.model = make_model(part(tokenizer, "model"), name),
                       .normalizer = make_normalizer(part(tokenizer, "normalizer"), name),
                       .pre_tokenizer = make_pre_tokenizer(part(tokenizer, "pre_tokenizer"), name),
                       .added_tokens = {},
                       .post_processor = PostProcessor::from_json(part(tokenizer, "post_processor"), name),
                       .decoder = TokenDecoder(part(tokenizer, "decoder"), name),
                       .special_tokens = {},
                       .chat_templates = {}};
  const Json& added = part(tokenizer, "added_tokens");
  check(added.is_array() || added.is_null(), ErrorKind::kCorruptData, "{}: \"added_tokens\" must be an array", name);
  for (const Json& token : added) {
    parts.added_tokens.add(AddedToken::from_json(token, name), parts.model->vocabulary(), parts.normalizer.get());
  }
  if (config.is_object()) {
    add_config_tokens(config, parts, name);
    set_special_tokens(config, parts, name);
    set_chat_templates(config, parts, name);
    // Parity: transformers 5 ignores clean_up_tokenization_spaces for BPE, where it would eat real spaces, unless this
    // is set.
    const bool force =
        json_bool(config, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false, name);
    const bool wanted = json_bool(config, "clean_up_tokenization_spaces", false, name);
    if (wanted && (force || parts.model->type() != "BPE")) parts.decoder.add_space_cleanup();
  }
  parts.added_tokens.finish();
  return parts;
}

}  // namespace mneme
