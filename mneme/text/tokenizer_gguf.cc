#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/text/bpe_json.h"
#include "mneme/text/byte_alphabet.h"
#include "mneme/text/component.h"
#include "mneme/text/sentencepiece_merges.h"
#include "mneme/text/tokenizer_parts.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

// Parity throughout: transformers 5.23, integrations/gguf/gguf_tokenizer_mapping.py.

enum TokenType { kNormal = 1, kControl = 3, kUserDefined = 4 };

constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenSplit = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4oSplit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// What tokenizer.ggml.pre stands for; nullptr: the words of GPT-2.
struct PreTokenizerName {
  const char* name;
  const char* split;
};
constexpr PreTokenizerName kPreTokenizers[] = {
    {"default", nullptr},
    {"gpt-2", nullptr},
    {"gpt2", nullptr},
    {"phi-2", nullptr},
    {"olmo", nullptr},
    {"mpt", nullptr},
    // Parity: the model's own tokenizer.json cuts digits off one by one first; transformers does not for a GGUF.
    {"smollm", nullptr},
    {"llama3", kLlama3Split},
    {"llama-v3", kLlama3Split},
    {"llama-bpe", kLlama3Split},
    {"falcon3", kLlama3Split},
    {"falcon-h1", kLlama3Split},
    {"pixtral", kLlama3Split},
    {"lfm2", kLlama3Split},
    {"dbrx", kLlama3Split},
    {"smaug-bpe", kLlama3Split},
    {"tekken", kTekkenSplit},
    {"qwen2", kQwen2Split},
    {"megrez", kQwen2Split},
    {"deepseek-r1-qwen", kQwen2Split},
    {"qwen35", kQwen35Split},
    {"gpt-4o", kGpt4oSplit},
    {"llama4", kGpt4oSplit},
};

/// The metadata under "tokenizer.", with errors that name the file and the key.
class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : json_(file.metadata()), name_(file.name()) {}

  const std::string& name() const noexcept { return name_; }
  const Json* find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() ? nullptr : &*it;
  }
  const Json& array(const char* key) const {
    const Json* value = find(key);
    check(value && value->is_array(), ErrorKind::kCorruptData, "{}: there is no array \"{}\"", name_, key);
    return *value;
  }
  std::string string(const char* key, std::string_view fallback) const {
    return json_string(json_, key, fallback, name_);
  }
  bool boolean(const char* key, bool fallback) const { return json_bool(json_, key, fallback, name_); }

  std::vector<std::string> tokens() const {
    std::vector<std::string> texts;
    for (const Json& token : array("tokenizer.ggml.tokens")) {
      check(token.is_string(), ErrorKind::kCorruptData, "{}: token {} is not a string", name_, texts.size());
      texts.push_back(to_valid_utf8(token.get_ref<const std::string&>()));
    }
    return texts;
  }
  /// By token; all normal if the file does not say.
  std::vector<std::int64_t> token_types(std::size_t n_tokens) const {
    if (!find("tokenizer.ggml.token_type")) return std::vector<std::int64_t>(n_tokens, kNormal);
    return numbers<std::int64_t>("tokenizer.ggml.token_type", n_tokens);
  }
  template <class Number>
  std::vector<Number> numbers(const char* key, std::size_t n) const {
    const Json& list = array(key);
    check(list.size() == n, ErrorKind::kCorruptData, "{}: \"{}\" has {} entries for {} tokens", name_, key, list.size(),
          n);
    std::vector<Number> values;
    values.reserve(n);
    for (const Json& value : list) {
      const bool fits = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
      check(fits, ErrorKind::kCorruptData, "{}: entry {} of \"{}\" is not a number of its kind", name_, values.size(),
            key);
      values.push_back(value.get<Number>());
    }
    return values;
  }

 private:
  const Json& json_;
  const std::string& name_;
};

Vocabulary make_vocabulary(const std::vector<std::string>& tokens) {
  std::size_t n_bytes = 0;
  for (const std::string& token : tokens) n_bytes += token.size();
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), n_bytes);
  for (std::size_t id = 0; id < tokens.size(); ++id) vocabulary.add(tokens[id], static_cast<std::int64_t>(id));
  return vocabulary;
}

MergeTable read_merges(const Metadata& metadata, const Vocabulary& vocabulary) {
  const Json& list = metadata.array("tokenizer.ggml.merges");
  MergeTable merges;
  merges.reserve(list.size());
  for (const Json& merge : list) {
    check(merge.is_string(), ErrorKind::kCorruptData, "{}: a merge is not a string", metadata.name());
    const auto [left, right] = split_merge(merge.get_ref<const std::string&>(), metadata.name());
    add_merge(vocabulary, left, right, 0, merges, metadata.name());
  }
  return merges;
}

/// Byte-level BPE.
TokenizerParts read_gpt2(const Metadata& metadata, const std::vector<std::string>& tokens) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), 8 * tokens.size());
  for (const std::string& token : tokens) {
    // A token with characters that are not byte characters is meant literally, and the text reaches it spelled in
    // bytes.
    const bool spelled = alphabet.covers(token);
    vocabulary.add(spelled ? token : alphabet.spell(token), vocabulary.id_limit());
  }
  MergeTable merges = read_merges(metadata, vocabulary);

  const std::string pre = metadata.string("tokenizer.ggml.pre", "default");
  const auto* known =
      std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers), [&](const auto& p) { return pre == p.name; });
  check(known != std::end(kPreTokenizers), ErrorKind::kUnsupported,
        "{}: the pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported; use the model's tokenizer.json",
        metadata.name(), pre);
  Json pre_tokenizer = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", known->split == nullptr}};
  if (known->split) {
    const Json split = {
        {"type", "Split"}, {"pattern", {{"Regex", known->split}}}, {"behavior", "Isolated"}, {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, pre_tokenizer})}};
  }
  return {.model = std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), BpeOptions{}),
          .normalizer = nullptr,
          .pre_tokenizer = make_pre_tokenizer(pre_tokenizer, metadata.name()),
          .added_tokens = {},
          .post_processor = {},
          .decoder = TokenDecoder(Json::object({{"type", "ByteLevel"}}), metadata.name()),
          .special_tokens = {},
          .chat_templates = {}};
}

/// How the three families of sentencepiece vocabularies treat spaces.
enum class SpaceStyle { kLlama, kPhi3, kGemma };

SpaceStyle space_style(std::string_view architecture) {
  if (architecture.starts_with("gemma")) return SpaceStyle::kGemma;
  return architecture == "phi3" ? SpaceStyle::kPhi3 : SpaceStyle::kLlama;
}

const char* normalizer_of(SpaceStyle style) {
  switch (style) {
    case SpaceStyle::kLlama: return "null";
    case SpaceStyle::kPhi3:
      return R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
    case SpaceStyle::kGemma: return R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})";
  }
  return "null";
}

const char* pre_tokenizer_of(SpaceStyle style, bool add_space_prefix) {
  switch (style) {
    case SpaceStyle::kLlama:
      return add_space_prefix
                 ? R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})"
                 : R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false})";
    case SpaceStyle::kPhi3: return "null";
    case SpaceStyle::kGemma:
      return R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false})";
  }
  return "null";
}

Json sentencepiece_decoder(bool strip_first_space) {
  Json steps = parse_json(R"([{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                              {"type": "Fuse"}])",
                          "decoder");
  if (strip_first_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

/// SentencePiece's BPE.
TokenizerParts read_llama(const Metadata& metadata, std::vector<std::string> tokens) {
  const std::string& name = metadata.name();
  const SpaceStyle style = space_style(metadata.string("general.architecture", ""));
  if (style == SpaceStyle::kGemma) {
    // These files hold runs of spaces as spaces, where the normalized text has metaspaces.
    for (std::string& token : tokens) {
      if (token.empty() || token.find_first_not_of(' ') != token.npos) continue;
      std::string spelled;
      for (std::size_t i = 0; i < token.size(); ++i) spelled += "▁";
      token = std::move(spelled);
    }
  }
  BpeOptions options;
  options.fuse_unk = options.byte_fallback = true;
  if (style == SpaceStyle::kGemma) options.unk_token = "<unk>";
  const bool add_space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix", true);

  Vocabulary vocabulary = make_vocabulary(tokens);
  MergeTable merges;
  if (metadata.find("tokenizer.ggml.merges")) {
    merges = read_merges(metadata, vocabulary);
  } else {
    std::vector<double> scores;
    if (style == SpaceStyle::kGemma) {
      // Its scores do not follow the order of its merges; the order of its tokens does.
      for (std::size_t id = 0; id < tokens.size(); ++id) scores.push_back(-static_cast<double>(id));
    } else {
      scores = metadata.numbers<double>("tokenizer.ggml.scores", tokens.size());
    }
    for (const double score : scores)
      check(!std::isnan(score), ErrorKind::kCorruptData, "{}: a token's score is not a number", name);
    merges = sentencepiece_merges(vocabulary, tokens, scores);
  }
  return {.model = std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options)),
          .normalizer = make_normalizer(parse_json(normalizer_of(style), name), name),
          .pre_tokenizer = make_pre_tokenizer(parse_json(pre_tokenizer_of(style, add_space_prefix), name), name),
          .added_tokens = {},
          .post_processor = {},
          .decoder = TokenDecoder(sentencepiece_decoder(style != SpaceStyle::kGemma && add_space_prefix), name),
          .special_tokens = {},
          .chat_templates = {}};
}

/// Control tokens are special; what users defined is matched in the text too, but is not special.
void add_marked_tokens(const std::vector<std::string>& tokens, const std::vector<std::int64_t>& types,
                       TokenizerParts& parts) {
  for (const std::int64_t type : {kControl, kUserDefined}) {
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (types[id] != type) continue;
      // Parity: a user's token that the vocabulary spells otherwise (spaces in byte-level or Gemma's files) is left to
      // the model.
      if (type == kUserDefined && parts.model->vocabulary().find(tokens[id]) == kNoToken) continue;
      const AddedToken token{.content = tokens[id], .normalized = false, .special = type == kControl};
      parts.added_tokens.add_at(static_cast<TokenId>(id), token);
    }
  }
}

void set_special_tokens(const Metadata& metadata, const std::vector<std::string>& tokens, TokenizerParts& parts) {
  constexpr std::pair<const char*, const char*> kKeys[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                           {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                           {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [role, key] : kKeys) {
    const Json* value = metadata.find(key);
    if (!value) continue;
    check(is_integer_up_to(*value, static_cast<std::int64_t>(tokens.size()) - 1), ErrorKind::kCorruptData,
          "{}: \"{}\" is {}, which is not one of the {} tokens", metadata.name(), key, excerpt(*value), tokens.size());
    const auto id = value->get<TokenId>();
    const std::string& text = tokens[static_cast<std::size_t>(id)];
    if (!parts.added_tokens.at(id)) {
      parts.added_tokens.add_at(id, {.content = text, .normalized = false, .special = true});
    }
    parts.special_tokens[role] = {text, id};
  }
}

void set_bos_and_eos(const Metadata& metadata, bool add_bos_by_default, TokenizerParts& parts) {
  const auto add = [&](const char* key, bool fallback, const char* role, std::vector<std::int64_t>& where) {
    const auto token = parts.special_tokens.find(role);
    if (metadata.boolean(key, fallback) && token != parts.special_tokens.end()) where.push_back(token->second.id);
  };
  add("tokenizer.ggml.add_bos_token", add_bos_by_default, "bos_token", parts.post_processor.prefix);
  add("tokenizer.ggml.add_eos_token", false, "eos_token", parts.post_processor.suffix);
}

void set_chat_templates(const Metadata& metadata, TokenizerParts& parts) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (metadata.find(kKey.data())) parts.chat_templates["default"] = metadata.string(kKey.data(), "");
  const Json* names = metadata.find("tokenizer.chat_templates");
  if (!names || !names->is_array()) return;
  for (const Json& name : *names) {
    if (!name.is_string()) continue;
    const std::string key = std::string(kKey) + "." + name.get<std::string>();
    if (metadata.find(key.c_str())) parts.chat_templates[name.get<std::string>()] = metadata.string(key.c_str(), "");
  }
}

}  // namespace

TokenizerParts read_tokenizer_gguf(const GgufFile& file) {
  const Metadata metadata(file);
  const std::vector<std::string> tokens = metadata.tokens();
  const std::string model = metadata.string("tokenizer.ggml.model", "");
  check(model == "gpt2" || model == "llama", ErrorKind::kUnsupported,
        "{}: the tokenizer model \"{}\" (tokenizer.ggml.model) is not supported; supported are gpt2 and llama",
        file.name(), model);
  TokenizerParts parts = model == "gpt2" ? read_gpt2(metadata, tokens) : read_llama(metadata, tokens);
  add_marked_tokens(tokens, metadata.token_types(tokens.size()), parts);
  set_special_tokens(metadata, tokens, parts);
  set_bos_and_eos(metadata, /*add_bos_by_default=*/model == "llama", parts);
  set_chat_templates(metadata, parts);
  parts.added_tokens.finish();
  return parts;
}

}  // namespace mneme
