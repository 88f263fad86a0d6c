#include "mneme/text/word_piece.h"

#include <set>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/text/bpe_json.h"
#include "mneme/text/utf8.h"

namespace mneme {

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), unk_id_(vocabulary_.find(options_.unk_token)) {
  check(unk_id_ != kNoToken, ErrorKind::kCorruptData, "the unknown token \"{}\" is not in the vocabulary",
        options_.unk_token);
  std::set<std::size_t> sizes;
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary_.id_limit()); ++id) {
    if (vocabulary_.has(id)) sizes.insert(vocabulary_.text(id).size());
  }
  sizes_.assign(sizes.rbegin(), sizes.rend());
}

void WordPiece::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  const std::size_t n_before = ids.size();
  std::size_t n_characters = 0;
  for_each_code_point(piece, [&](char32_t, std::size_t, std::size_t) { ++n_characters; });
  bool known = n_characters <= options_.max_input_chars_per_word;
  for (std::size_t start = 0; known && start < piece.size();) {
    const std::size_t length = longest_token(piece, start, ids);
    known = length > 0;
    start += length;
  }
  if (known) return;
  ids.resize(n_before);
  ids.push_back(unk_id_);
}

std::size_t WordPiece::longest_token(std::string_view piece, std::size_t start, std::vector<std::int64_t>& ids) const {
  const std::string_view prefix = start > 0 ? std::string_view(options_.continuing_subword_prefix) : "";
  std::string text(prefix);
  for (const std::size_t token_size : sizes_) {
    if (token_size <= prefix.size() || token_size - prefix.size() > piece.size() - start) continue;
    const std::size_t length = token_size - prefix.size(), end = start + length;
    if (end < piece.size() && continues_character(piece[end])) continue;
    text.replace(prefix.size(), std::string::npos, piece.substr(start, length));
    if (const TokenId id = vocabulary_.find(text); id != kNoToken) {
      ids.push_back(id);
      return length;
    }
  }
  return 0;
}

std::unique_ptr<WordPiece> make_word_piece(const Json& model, std::string_view name) {
  const auto tokens = model.find("vocab");
  check(tokens != model.end() && tokens->is_object(), ErrorKind::kCorruptData,
        "{}: the WordPiece model lacks \"vocab\", or it is no object", name);
  WordPieceOptions options;
  options.unk_token = json_string(model, "unk_token", options.unk_token, name);
  options.continuing_subword_prefix =
      json_string(model, "continuing_subword_prefix", options.continuing_subword_prefix, name);
  const std::int64_t most = json_int(model, "max_input_chars_per_word", 100, name);
  check(most >= 0, ErrorKind::kCorruptData, "{}: \"max_input_chars_per_word\" is {}, it must not be negative", name,
        most);
  options.max_input_chars_per_word = static_cast<std::size_t>(most);
  return std::make_unique<WordPiece>(read_vocabulary(*tokens, name), std::move(options));
}

}  // namespace mneme
