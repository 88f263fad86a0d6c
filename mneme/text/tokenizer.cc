#include "mneme/text/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "mneme/base/error.h"
#include "mneme/base/mapped_file.h"
#include "mneme/text/detokenizer.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

namespace fs = std::filesystem;

Json read_if_there(const fs::path& path) { return fs::exists(path) ? read_json_file(path.string()) : Json::object(); }

/// tokenizer_config.json, over it what older repositories keep in other files.
Json read_config(const fs::path& folder) {
  Json config = read_if_there(folder / "tokenizer_config.json");
  check(config.is_object(), ErrorKind::kCorruptData, "{}: must be an object, it is {}",
        (folder / "tokenizer_config.json").string(), config.type_name());
  if (!config.contains("added_tokens_decoder")) {
    if (const Json roles = read_if_there(folder / "special_tokens_map.json"); roles.is_object()) config.update(roles);
  }
  return config;
}

void read_chat_template_files(const fs::path& folder, TokenizerParts& parts) {
  const auto read = [&](const fs::path& path, const std::string& name) {
    parts.chat_templates[name] = MappedFile(path.string()).text();
  };
  if (fs::exists(folder / "chat_template.jinja")) read(folder / "chat_template.jinja", "default");
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", none)) {
    if (entry.path().extension() == ".jinja") read(entry.path(), entry.path().stem().string());
  }
}

}  // namespace

/// Encodes the words of one text. Words come again and again, so each is encoded once.
class Tokenizer::WordEncoder {
 public:
  explicit WordEncoder(const TokenModel& model) : model_(model) {}

  void encode(std::string_view word, std::vector<std::int64_t>& ids) {
    if (word.size() > kMaxBytes) return model_.encode(word, ids);
    if (const TokenId known = words_.find(word); known != kNoToken) {
      const auto [begin, end] = places_[static_cast<std::size_t>(known)];
      for (std::size_t i = begin; i < end; ++i) {
        const std::int64_t id = ids[i];
        ids.push_back(id);
      }
      return;
    }
    const std::size_t begin = ids.size();
    model_.encode(word, ids);
    if (places_.size() == kMaxWords) return;
    words_.add(word, static_cast<std::int64_t>(places_.size()));
    places_.emplace_back(begin, ids.size());
  }

 private:
  static constexpr std::size_t kMaxBytes = 64, kMaxWords = 65536;

  const TokenModel& model_;
  Vocabulary words_;                                         ///< words numbered as they come
  std::vector<std::pair<std::size_t, std::size_t>> places_;  ///< where their ids lie in the result
};

Tokenizer Tokenizer::from_pretrained(const std::string& path) {
  const fs::path where(path);
  check(fs::exists(where), ErrorKind::kIo, "{}: there is no such file or folder", path);
  if (!fs::is_directory(where)) {
    return where.extension() == ".json" ? from_json(read_json_file(path), {}, path) : from_gguf(GgufFile(path));
  }
  const fs::path file = where / "tokenizer.json";
  check(fs::exists(file), ErrorKind::kIo,
        "{}: the folder has no tokenizer.json; save it there, or give token ids instead of text", path);
  TokenizerParts parts = read_tokenizer_json(read_json_file(file.string()), read_config(where), file.string());
  read_chat_template_files(where, parts);
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::from_json(const Json& tokenizer, const Json& config, std::string_view name) {
  return Tokenizer(read_tokenizer_json(tokenizer, config, name));
}

Tokenizer Tokenizer::from_gguf(const GgufFile& file) { return Tokenizer(read_tokenizer_gguf(file)); }

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::make_shared<const TokenizerParts>(std::move(parts))) {}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const TokenizerParts& parts = *parts_;
  std::vector<std::int64_t> ids;
  if (options.add_special_tokens) ids = parts.post_processor.prefix;
  WordEncoder words(*parts.model);

  const std::string valid = to_valid_utf8(text);
  for (const AddedTokens::Segment& raw : parts.added_tokens.split(valid, /*normalized=*/false)) {
    if (raw.id != kNoToken) {
      ids.push_back(raw.id);
      continue;
    }
    NormalizedText normal{valid.substr(raw.begin, raw.end - raw.begin), raw.begin == 0};
    if (parts.normalizer) parts.normalizer->normalize(normal);
    for (const AddedTokens::Segment& segment : parts.added_tokens.split(normal.text, /*normalized=*/true)) {
      if (segment.id != kNoToken) {
        ids.push_back(segment.id);
        continue;
      }
      PieceList list{normal.text.substr(segment.begin, segment.end - segment.begin), {}};
      list.pieces.push_back({0, list.text.size(), normal.at_start && segment.begin == 0});
      if (parts.pre_tokenizer) parts.pre_tokenizer->split(list);
      for (const PieceList::Piece& piece : list.pieces) words.encode(list.view(piece), ids);
    }
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts.post_processor.suffix.begin(), parts.post_processor.suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, DecodeOptions options) const {
  Detokenizer detokenizer(*this, options);
  std::string text;
  for (const std::int64_t id : ids) text += detokenizer.put(id);
  return text += detokenizer.finish();
}

std::int64_t Tokenizer::vocab_size() const noexcept {
  const auto& added = parts_->added_tokens.by_id();
  const std::int64_t added_limit = added.empty() ? 0 : std::int64_t{added.rbegin()->first} + 1;
  return std::max(parts_->model->vocabulary().id_limit(), added_limit);
}

std::optional<std::int64_t> Tokenizer::token_to_id(std::string_view token) const {
  TokenId id = parts_->added_tokens.find(token);
  if (id == kNoToken) id = parts_->model->vocabulary().find(token);
  return id == kNoToken ? std::nullopt : std::optional<std::int64_t>(id);
}

std::optional<std::string> Tokenizer::id_to_token(std::int64_t id) const {
  if (const AddedToken* added = parts_->added_tokens.at(id)) return added->content;
  const Vocabulary& vocabulary = parts_->model->vocabulary();
  if (!vocabulary.has(id)) return std::nullopt;
  return std::string(vocabulary.text(static_cast<TokenId>(id)));
}

bool Tokenizer::is_special(std::int64_t id) const {
  const auto text = decoder_text(id);
  return text && parts_->added_tokens.is_special(*text);
}

const std::map<TokenId, AddedToken>& Tokenizer::added_tokens() const noexcept { return parts_->added_tokens.by_id(); }

const SpecialToken* Tokenizer::special_token(std::string_view role) const {
  const auto it = parts_->special_tokens.find(role);
  return it == parts_->special_tokens.end() ? nullptr : &it->second;
}

const std::map<std::string, SpecialToken, std::less<>>& Tokenizer::special_tokens() const noexcept {
  return parts_->special_tokens;
}

const std::string* Tokenizer::chat_template(std::string_view name) const {
  const auto it = parts_->chat_templates.find(name);
  return it == parts_->chat_templates.end() ? nullptr : &it->second;
}

std::optional<std::string_view> Tokenizer::decoder_text(std::int64_t id) const {
  if (parts_->added_tokens.at(id)) return parts_->added_tokens.decoder_text(id);
  const Vocabulary& vocabulary = parts_->model->vocabulary();
  if (!vocabulary.has(id)) return std::nullopt;
  return vocabulary.text(static_cast<TokenId>(id));
}

}  // namespace mneme
