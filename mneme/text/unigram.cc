#include "mneme/text/unigram.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"
#include "mneme/text/component.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

constexpr std::size_t kLongestToken = 65536;  // bytes: a text costs its length times that of what it has in common
constexpr double kUnknownPenalty = 10;        // Parity: below the worst token, as in SentencePiece

void check_spelled(bool spelled, std::string_view text) {
  if (spelled) return;
  throw Error(ErrorKind::kInvalidArgument, "no token spells \"{}\", and the tokenizer has no unknown token",
              printable(text));
}

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  check(!options_.unk_id || vocabulary_.has(*options_.unk_id), ErrorKind::kCorruptData,
        "the Unigram model's unk_id is {}, there are {} tokens", options_.unk_id.value_or(0), vocabulary_.id_limit());
  unknown_score_ = (scores_.empty() ? 0.0 : *std::ranges::min_element(scores_)) - kUnknownPenalty;
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary_.id_limit()); ++id) {
    // Of tokens with one text the last is found, here as by `append`.
    if (vocabulary_.has(id) && vocabulary_.find(vocabulary_.text(id)) == id) sorted_.push_back(id);
  }
  std::ranges::sort(sorted_, {}, [&](TokenId id) { return vocabulary_.text(id); });
  if (options_.byte_fallback) byte_tokens_ = ByteTokens(vocabulary_);
}

/// Calls visit(id, length) for each token that the text begins with, the shortest first.
template <class Visit>
void Unigram::for_each_token_at(std::string_view text, Visit&& visit) const {
  auto first = sorted_.begin(), last = sorted_.end();
  for (std::size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte_of = [&](TokenId id) {
      const std::string_view token = vocabulary_.text(id);
      return token.size() > depth ? static_cast<int>(static_cast<unsigned char>(token[depth])) : -1;
    };
    const int byte = static_cast<unsigned char>(text[depth]);
    first = std::ranges::lower_bound(first, last, byte, {}, byte_of);
    last = std::ranges::upper_bound(first, last, byte, {}, byte_of);
    if (first == last) return;
    if (vocabulary_.text(*first).size() == depth + 1) visit(*first, depth + 1);
  }
}

std::vector<Unigram::Node> Unigram::best_paths(std::string_view piece) const {
  std::vector<Node> nodes(piece.size() + 1);
  nodes[0].reached = true;
  for_each_code_point(piece, [&](char32_t, std::size_t begin, std::size_t end) {
    const double here = nodes[begin].score;
    const auto offer = [&](std::size_t to, double score, std::optional<TokenId> id) {
      Node& node = nodes[to];
      if (!node.reached || score > node.score) node = {score, begin, id, true};
    };
    bool spelled = false;
    for_each_token_at(piece.substr(begin), [&](TokenId id, std::size_t length) {
      offer(begin + length, here + scores_[static_cast<std::size_t>(id)], id);
      spelled = spelled || length == end - begin;
    });
    if (spelled) return;
    check_spelled(options_.unk_id || options_.byte_fallback, piece.substr(begin, end - begin));
    offer(end, here + unknown_score_, options_.unk_id);
  });
  return nodes;
}

void Unigram::append(std::string_view text, std::vector<std::int64_t>& ids) const {
  if (const TokenId id = vocabulary_.find(text); id != kNoToken) {
    ids.push_back(id);
    return;
  }
  if (byte_tokens_.append(text, ids)) return;
  check_spelled(options_.unk_id.has_value(), text);
  ids.push_back(*options_.unk_id);
}

void Unigram::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  const std::vector<Node> nodes = best_paths(piece);
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  bool after_unknown = false;
  for (std::size_t end = piece.size(); end > 0; end = nodes[end].start) {
    const bool unknown = options_.unk_id && nodes[end].id == options_.unk_id;
    if (unknown && after_unknown) {
      ranges.back().first = nodes[end].start;  // neighbours become one
    } else {
      ranges.emplace_back(nodes[end].start, end);
    }
    after_unknown = unknown;
  }
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    append(piece.substr(range->first, range->second - range->first), ids);
  }
}

std::unique_ptr<Unigram> make_unigram(const Json& model, std::string_view name) {
  const auto list = model.find("vocab");
  check(list != model.end() && list->is_array(), ErrorKind::kCorruptData,
        "{}: the Unigram model lacks \"vocab\", or it is no list", name);
  check(list->size() <= static_cast<std::size_t>(kMaxTokenId), ErrorKind::kCorruptData,
        "{}: the Unigram model has {} tokens, at most {} can be", name, list->size(), kMaxTokenId);
  Vocabulary vocabulary;
  vocabulary.reserve(list->size(), 8 * list->size());
  std::vector<double> scores;
  for (const Json& entry : *list) {
    const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!pair || !std::isfinite(entry[1].get<double>())) {
      throw Error(ErrorKind::kCorruptData, "{}: token {} must be [text, score], it is {}", name, scores.size(),
                  excerpt(entry));
    }
    check(entry[0].get_ref<const std::string&>().size() <= kLongestToken, ErrorKind::kCorruptData,
          "{}: token {} has {} bytes, at most {} can be", name, scores.size(),
          entry[0].get_ref<const std::string&>().size(), kLongestToken);
    vocabulary.add(entry[0].get_ref<const std::string&>(), std::ssize(scores));
    scores.push_back(entry[1].get<double>());
  }
  UnigramOptions options{.byte_fallback = json_bool(model, "byte_fallback", false, name)};
  if (const std::int64_t id = json_int(model, "unk_id", -1, name); id >= 0) {
    check(id < std::ssize(scores), ErrorKind::kCorruptData, "{}: \"unk_id\" is {}, there are {} tokens", name, id,
          scores.size());
    options.unk_id = static_cast<TokenId>(id);
  }
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), options);
}

}  // namespace mneme
