#include "mneme/text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

std::uint64_t pair_of(TokenId left, TokenId right) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::size_t hash_of(std::uint64_t pair) noexcept {
  pair *= 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio
  return static_cast<std::size_t>(pair ^ pair >> 29);
}

/// Merges the tokens of one piece in place: a linked list of symbols, and a heap of the pairs that can merge.
class Merger {
 public:
  Merger(const MergeTable& merges, const std::vector<TokenId>& tokens) : merges_(merges), symbols_(tokens.size()) {
    heap_.reserve(tokens.size());
    for (std::uint32_t i = 0; i < symbols_.size(); ++i) symbols_[i] = {tokens[i], i - 1, i + 1, MergeTable::kNoRank};
    for (std::uint32_t i = 0; i + 1 < symbols_.size(); ++i) {
      symbols_[i].rank = merges_.rank(tokens[i], tokens[i + 1]);
      if (symbols_[i].rank != MergeTable::kNoRank) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  void run() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<std::uint32_t>(top);
      // An entry is stale when its pair has changed since.
      if (symbols_[at].rank == static_cast<std::uint32_t>(top >> 32)) merge(at);
    }
  }

  void append_to(std::vector<std::int64_t>& ids) const {
    for (std::uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) ids.push_back(symbols_[i].token);
  }

 private:
  struct Symbol {
    TokenId token;
    std::uint32_t previous;
    std::uint32_t next;
    std::uint32_t rank;  ///< of the merge with the next symbol
  };

  /// Lowest rank first, then leftmost.
  std::uint64_t entry(std::uint32_t at) const { return std::uint64_t{symbols_[at].rank} << 32 | at; }

  void merge(std::uint32_t at) {
    Symbol& left = symbols_[at];
    Symbol& right = symbols_[left.next];
    left.token = merges_.merged(left.rank);
    left.next = right.next;
    right.rank = MergeTable::kNoRank;
    if (left.next < symbols_.size()) symbols_[left.next].previous = at;
    if (at > 0) update(left.previous);
    update(at);
  }

  void update(std::uint32_t at) {
    Symbol& symbol = symbols_[at];
    symbol.rank =
        symbol.next < symbols_.size() ? merges_.rank(symbol.token, symbols_[symbol.next].token) : MergeTable::kNoRank;
    if (symbol.rank == MergeTable::kNoRank) return;
    heap_.push_back(entry(at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace

void MergeTable::reserve(std::size_t n_merges) {
  merged_.reserve(n_merges);
  if (2 * n_merges > slots_.size()) grow(std::bit_ceil(2 * n_merges));
}

void MergeTable::add(TokenId left, TokenId right, TokenId merged) {
  if (2 * (merged_.size() + 1) > slots_.size()) grow(std::max<std::size_t>(16, 2 * slots_.size()));
  Slot& slot = slot_of(pair_of(left, right));
  slot = {pair_of(left, right), static_cast<std::uint32_t>(merged_.size())};
  merged_.push_back(merged);
}

std::uint32_t MergeTable::rank(TokenId left, TokenId right) const noexcept {
  if (slots_.empty()) return kNoRank;
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t i = hash_of(pair);; ++i) {
    const Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.pair == pair || slot.rank == kNoRank) return slot.rank;
  }
}

MergeTable::Slot& MergeTable::slot_of(std::uint64_t pair) noexcept {
  for (std::size_t i = hash_of(pair);; ++i) {
    Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.pair == pair || slot.rank == kNoRank) return slot;
  }
}

void MergeTable::grow(std::size_t n_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n_slots));
  for (const Slot& slot : old) {
    if (slot.rank != kNoRank) slot_of(slot.pair) = slot;
  }
}

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  if (options_.unk_token) {
    unk_ = vocabulary_.find(*options_.unk_token);
    check(unk_ != kNoToken, ErrorKind::kCorruptData, "the unknown token \"{}\" is not in the vocabulary of {} tokens",
          *options_.unk_token, vocabulary_.size());
  }
  if (options_.byte_fallback) byte_tokens_ = ByteTokens(vocabulary_);
}

void Bpe::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  check(piece.size() < UINT32_MAX, ErrorKind::kInvalidArgument,
        "a text of {} bytes without a break cannot be encoded; at most {}", piece.size(), UINT32_MAX - 1);
  if (options_.ignore_merges) {
    if (const TokenId whole = vocabulary_.find(piece); whole != kNoToken) {
      ids.push_back(whole);
      return;
    }
  }
  Merger merger(merges_, initial_tokens(piece));
  merger.run();
  merger.append_to(ids);
}

std::vector<TokenId> Bpe::initial_tokens(std::string_view piece) const {
  std::vector<TokenId> tokens;
  tokens.reserve(piece.size());
  const bool decorated = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  std::string spelled;
  bool unk_pending = false;
  const auto flush_unk = [&] {
    if (std::exchange(unk_pending, false)) tokens.push_back(unk_);
  };
  for_each_code_point(piece, [&](char32_t, std::size_t begin, std::size_t end) {
    std::string_view character = piece.substr(begin, end - begin);
    if (decorated) {
      spelled = begin > 0 ? options_.continuing_subword_prefix : "";
      spelled += character;
      if (end == piece.size()) spelled += options_.end_of_word_suffix;
      character = spelled;
    }
    if (const TokenId token = vocabulary_.find(character); token != kNoToken) {
      flush_unk();
      tokens.push_back(token);
      return;
    }
    // Parity: byte tokens do not flush a pending unk token, which so comes after them.
    if (byte_tokens_.append(character, tokens)) return;
    if (unk_ == kNoToken) return;
    if (!options_.fuse_unk) flush_unk();
    unk_pending = true;
  });
  flush_unk();
  return tokens;
}

}  // namespace mneme
