#include "mneme/text/token_trie.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "mneme/text/byte_alphabet.h"
#include "mneme/text/byte_token.h"

namespace mneme {
namespace {

constexpr std::string_view kMetaspace = "\u2581", kByteLevelSpace = "\u0120";

std::string with_spaces(std::string text) {
  for (std::size_t at = text.find(kMetaspace); at != std::string::npos; at = text.find(kMetaspace, at))
    text.replace(at, kMetaspace.size(), " ");
  return text;
}

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  const auto space = tokenizer.token_to_id(kByteLevelSpace);
  const bool byte_level = space && tokenizer.decode(std::vector<std::int64_t>{*space}) == " ";
  std::vector<std::string> all(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::optional<std::string> token = tokenizer.id_to_token(id);
    if (!token || tokenizer.is_special(id)) continue;
    std::string& bytes = all[static_cast<std::size_t>(id)];
    if (tokenizer.added_tokens().contains(static_cast<TokenId>(id))) {
      bytes = *token;
    } else if (byte_level) {
      ByteAlphabet::instance().append_bytes(*token, bytes);
    } else if (const auto byte = byte_of_token(*token)) {
      bytes = *byte;
    } else {
      bytes = with_spaces(*token);
    }
  }
  return all;
}

TokenTrie::TokenTrie(const std::vector<std::string>& tokens) {
  ids_.resize(tokens.size());
  std::iota(ids_.begin(), ids_.end(), 0);
  std::erase_if(ids_, [&](std::int64_t id) { return tokens[static_cast<std::size_t>(id)].empty(); });
  const auto text = [&](std::size_t k) -> const std::string& { return tokens[static_cast<std::size_t>(ids_[k])]; };
  std::ranges::stable_sort(ids_, {},
                           [&](std::int64_t id) -> const std::string& { return tokens[static_cast<std::size_t>(id)]; });
  std::vector<std::size_t> path;  // nodes of the token before
  const auto close = [&](std::size_t length) {
    for (; path.size() > length; path.pop_back()) nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (std::size_t k = 0; k < ids_.size(); ++k) {
    const std::string& token = text(k);
    std::size_t common = 0;
    if (k > 0) common = static_cast<std::size_t>(std::ranges::mismatch(token, text(k - 1)).in1 - token.begin());
    close(common);
    const auto here = static_cast<std::uint32_t>(k);
    for (std::size_t i = common; i < token.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({.end = 0,
                        .first_id = here,
                        .end_id = here,
                        .depth = static_cast<std::uint32_t>(i),
                        .byte = static_cast<std::uint8_t>(token[i])});
    }
    nodes_[path.back()].end_id = here + 1;
    depth_ = std::max(depth_, token.size());
  }
  close(0);
}

}  // namespace mneme
