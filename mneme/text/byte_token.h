#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "mneme/text/vocabulary.h"

namespace mneme {

/// The byte that a byte-fallback token <0x00> to <0xFF> stands for; nothing for any other token.
inline std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

/// A vocabulary's byte-fallback tokens. Without a vocabulary there are none.
class ByteTokens {
 public:
  ByteTokens() = default;
  explicit ByteTokens(const Vocabulary& vocabulary) {
    for (int byte = 0; byte < 256; ++byte) ids_.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)));
  }

  /// Appends the tokens of all bytes of a text and returns true, or none and false if one is not there.
  template <class Id>
  bool append(std::string_view text, std::vector<Id>& ids) const {
    const auto id_of = [&](char byte) { return ids_[static_cast<unsigned char>(byte)]; };
    if (ids_.empty() || std::ranges::any_of(text, [&](char byte) { return id_of(byte) == kNoToken; })) return false;
    for (const char byte : text) ids.push_back(id_of(byte));
    return true;
  }

 private:
  std::vector<TokenId> ids_;  ///< by byte
};

}  // namespace mneme
