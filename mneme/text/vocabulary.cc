#include "mneme/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "mneme/base/error.h"

namespace mneme {
namespace {

std::uint32_t hash_of(std::string_view text) noexcept {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(text));
}

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
  const std::uint32_t hash = hash_of(text);
  for (std::size_t i = hash;; ++i) {
    Slot& slot = table_[i & (table_.size() - 1)];
    if (slot.id == kNoToken) {
      ++n_texts_;
    } else if (slot.hash != hash || this->text(slot.id) != text) {
      continue;
    }
    slot = {hash, static_cast<TokenId>(id)};
    return;
  }
}

TokenId Vocabulary::find(std::string_view text) const noexcept {
  if (table_.empty()) return kNoToken;
  const std::uint32_t hash = hash_of(text);
  for (std::size_t i = hash;; ++i) {
    const Slot& slot = table_[i & (table_.size() - 1)];
    if (slot.id == kNoToken || (slot.hash == hash && this->text(slot.id) == text)) return slot.id;
  }
}

void Vocabulary::grow_table(std::size_t n_slots) {
  const std::vector<Slot> old = std::exchange(table_, std::vector<Slot>(n_slots));
  for (const Slot& slot : old) {
    if (slot.id == kNoToken) continue;
    std::size_t i = slot.hash & (n_slots - 1);
    while (table_[i].id != kNoToken) i = (i + 1) & (n_slots - 1);
    table_[i] = slot;
  }
}

}  // namespace mneme
