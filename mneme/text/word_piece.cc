#include "mneme/text/word_piece.h"

#include <utility>

#include "mneme/base/error.h"
#include "mneme/text/bpe_json.h"
#include "mneme/text/utf8.h"

namespace mneme {

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), unk_id_(vocabulary_.find(options_.unk_token)) {
  check(unk_id_ != kNoToken, ErrorKind::kCorruptData, "the unknown token \"{}\" is not in the vocabulary",
        options_.unk_token);
}

void WordPiece::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  std::vector<std::size_t> ends;  // of characters
  for_each_code_point(piece, [&](char32_t, std::size_t, std::size_t end) { ends.push_back(end); });
  const std::size_t n_before = ids.size();
  bool known = ends.size() <= options_.max_input_chars_per_word;
  std::string text;
  for (std::size_t start = 0, first = 0; known && start < piece.size();) {
    std::size_t last = ends.size();
    TokenId id = kNoToken;
    for (; last > first && id == kNoToken; --last) {
      text = start > 0 ? options_.continuing_subword_prefix : std::string();
      text += piece.substr(start, ends[last - 1] - start);
      id = vocabulary_.find(text);
    }
    known = id != kNoToken;
    if (!known) break;
    ids.push_back(id);
    first = last + 1;
    start = ends[last];
  }
  if (known) return;
  ids.resize(n_before);
  ids.push_back(unk_id_);
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
