#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

using TokenId = std::int32_t;
constexpr TokenId kNoToken = -1;
constexpr TokenId kMaxTokenId =
    (1 << 22) - 1;  ///< four times the largest vocabulary in use; bounds what a bad file can ask for

/// Texts and ids of tokens, both ways. Texts lie in one string; lookups go through one flat table.
class Vocabulary {
 public:
  /// Room for `n_tokens` tokens of `n_bytes` in all.
  void reserve(std::size_t n_tokens, std::size_t n_bytes);

  /// Adds a token. A text that is there already gets the new id, as in a Python dict.
  /// Throws Error(kCorruptData) if the id is negative, above kMaxTokenId or taken by another text.
  void add(std::string_view text, std::int64_t id);

  /// The token's id, or kNoToken.
  TokenId find(std::string_view text) const noexcept;

  bool has(std::int64_t id) const noexcept {
    return id >= 0 && id < id_limit() && entries_[static_cast<std::size_t>(id)].present;
  }
  /// The token's text; `id` must be there. Valid as long as the vocabulary lives and does not grow.
  std::string_view text(TokenId id) const noexcept {
    const Entry& entry = entries_[static_cast<std::size_t>(id)];
    return {texts_.data() + entry.offset, entry.length};
  }

  /// One past the largest id.
  std::int64_t id_limit() const noexcept { return static_cast<std::int64_t>(entries_.size()); }
  /// How many texts there are.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(n_texts_); }

 private:
  struct Entry {
    std::uint32_t offset = 0;
    std::uint32_t length : 31 = 0;
    std::uint32_t present : 1 = 0;
  };

  struct Slot {
    std::uint32_t hash = 0;  ///< its lower bits, so that most strangers are passed over unread
    TokenId id = kNoToken;
  };

  void grow_table(std::size_t n_slots);

  std::string texts_;
  std::vector<Entry> entries_;  ///< by id
  std::vector<Slot> table_;     ///< open addressing, linear probing, at most half full; a power of two
  std::size_t n_texts_ = 0;
};

}  // namespace mneme
