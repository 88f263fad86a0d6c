#include "mneme/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "mneme/base/error.h"

namespace mneme {
namespace {

std::size_t hash_of(std::string_view text) noexcept { return std::hash<std::string_view>{}(text); }

}  // namespace

void Vocabulary::reserve(std::size_t n_tokens, std::size_t n_bytes) {
  entries_.reserve(n_tokens);
  texts_.reserve(n_bytes);
  if (2 * n_tokens > table_.size()) grow_table(std::bit_ceil(2 * n_tokens));
}

void Vocabulary::add(std::string_view text, std::int64_t id) {
  check(id >= 0 && id <= kMaxTokenId, ErrorKind::kCorruptData, "token \"{}\" has id {}, ids must lie in 0..{}", text,
        id, kMaxTokenId);
  check(texts_.size() + text.size() <= INT32_MAX, ErrorKind::kCorruptData,
        "the vocabulary's texts take more than {} bytes", INT32_MAX);
  check(!has(id) || this->text(static_cast<TokenId>(id)) == text, ErrorKind::kCorruptData,
        "id {} is given to two tokens, \"{}\" and \"{}\"", id, has(id) ? this->text(static_cast<TokenId>(id)) : "",
        text);

  const auto place = static_cast<std::size_t>(id);
  if (place >= entries_.size()) entries_.resize(place + 1);
  entries_[place].offset = static_cast<std::uint32_t>(texts_.size());
  entries_[place].length = static_cast<std::uint32_t>(text.size()) & 0x7fffffffu;
  entries_[place].present = 1;
  texts_ += text;

  if (2 * (n_texts_ + 1) > table_.size()) grow_table(std::max<std::size_t>(16, 2 * table_.size()));
  for (std::size_t slot = hash_of(text);; ++slot) {
    TokenId& there = table_[slot & (table_.size() - 1)];
    if (there == kNoToken) {
      ++n_texts_;
    } else if (this->text(there) != text) {
      continue;
    }
    there = static_cast<TokenId>(id);
    return;
  }
}

TokenId Vocabulary::find(std::string_view text) const noexcept {
  if (table_.empty()) return kNoToken;
  for (std::size_t slot = hash_of(text);; ++slot) {
    const TokenId there = table_[slot & (table_.size() - 1)];
    if (there == kNoToken || this->text(there) == text) return there;
  }
}

void Vocabulary::grow_table(std::size_t n_slots) {
  const std::vector<TokenId> old = std::exchange(table_, std::vector<TokenId>(n_slots, kNoToken));
  for (const TokenId id : old) {
    if (id == kNoToken) continue;
    std::size_t slot = hash_of(text(id)) & (n_slots - 1);
    while (table_[slot] != kNoToken) slot = (slot + 1) & (n_slots - 1);
    table_[slot] = id;
  }
}

}  // namespace mneme
