#include "mneme/text/added_tokens.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/text/regex.h"
#include "mneme/text/unicode.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

bool is_word_character(std::string_view text, std::size_t at) {
  static const Regex word(std::string("[") + kRustWord + "]");
  std::vector<ByteRange> matches;
  word.find_all(text.substr(at, read_code_point(text, at).length), matches);
  return !matches.empty();
}

std::size_t previous_character(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && continues_character(text[at]));
  return at;
}

/// Whether no word character touches the range.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_character(text, previous_character(text, begin))) return false;
  return end == text.size() || !is_word_character(text, end);
}

std::size_t skip_space_left(std::string_view text, std::size_t begin, std::size_t limit) {
  while (begin > limit) {
    const std::size_t previous = previous_character(text, begin);
    if (!is_whitespace(read_code_point(text, previous).value)) break;
    begin = previous;
  }
  return begin;
}

std::size_t skip_space_right(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const CodePoint c = read_code_point(text, end);
    if (!is_whitespace(c.value)) break;
    end += c.length;
  }
  return end;
}

}  // namespace

AddedToken AddedToken::from_json(const Json& json, std::string_view name) {
  check(json.is_object() && json.contains("content"), ErrorKind::kCorruptData, "{}: an added token lacks \"content\"",
        name);
  AddedToken token;
  token.content = json_string(json, "content", "", name);
  token.single_word = json_bool(json, "single_word", false, name);
  token.lstrip = json_bool(json, "lstrip", false, name);
  token.rstrip = json_bool(json, "rstrip", false, name);
  token.special = json_bool(json, "special", false, name);
  token.normalized = json_bool(json, "normalized", !token.special, name);
  return token;
}

void AddedTokens::add(const AddedToken& token, const Vocabulary& model, const Normalizer* normalizer) {
  if (token.content.empty()) return;
  TokenId id = find(token.content);
  if (id == kNoToken) id = model.find(token.content);
  if (id == kNoToken) {
    // Parity: the next free id counts the model's tokens, even where their ids have gaps.
    std::int64_t next = model.size();
    if (!by_id_.empty() && by_id_.rbegin()->first >= next) next = std::int64_t{by_id_.rbegin()->first} + 1;
    check(next <= kMaxTokenId, ErrorKind::kCorruptData, "the added token \"{}\" would get id {}; at most {}",
          token.content, next, kMaxTokenId);
    id = static_cast<TokenId>(next);
  }
  add_at(id, token);
  if (token.normalized && normalizer) {
    NormalizedText text{token.content};
    normalizer->normalize(text);
    decoder_texts_[id] = std::move(text.text);
  }
}

void AddedTokens::add_at(TokenId id, const AddedToken& token) {
  if (token.content.empty()) return;
  ids_[token.content] = id;
  by_id_[id] = token;
  decoder_texts_[id] = token.content;
  if (token.special) special_.insert(token.content);
}

void AddedTokens::finish() {
  raw_finder_ = normalized_finder_ = {};
  for (const auto& [id, token] : by_id_) {
    const std::string& text = token.normalized ? decoder_texts_.at(id) : token.content;
    if (!text.empty()) (token.normalized ? normalized_finder_ : raw_finder_).add(text, id);
  }
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text, bool normalized) const {
  const LiteralFinder& finder = normalized ? normalized_finder_ : raw_finder_;
  std::vector<Segment> segments;
  std::size_t done = 0;
  for (std::size_t start = 0; const auto match = finder.find(text, start);) {
    start = match->end;
    auto [begin, end, id] = *match;
    const AddedToken& token = by_id_.at(id);
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = skip_space_left(text, std::max(begin, done), done);
    if (token.rstrip) end = skip_space_right(text, end);
    if (done < begin) segments.push_back({done, begin, kNoToken});
    segments.push_back({begin, end, id});
    done = end;
  }
  if (done < text.size()) segments.push_back({done, text.size(), kNoToken});
  return segments;
}

TokenId AddedTokens::find(std::string_view content) const {
  const auto it = ids_.find(std::string(content));
  return it == ids_.end() ? kNoToken : it->second;
}

const AddedToken* AddedTokens::at(std::int64_t id) const {
  if (id < 0 || id > kMaxTokenId) return nullptr;
  const auto it = by_id_.find(static_cast<TokenId>(id));
  return it == by_id_.end() ? nullptr : &it->second;
}

}  // namespace mneme
