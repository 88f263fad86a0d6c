#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace mneme {

/// The 256 printable characters that byte-level BPE writes bytes as: a byte that is a visible Latin-1 character stands
/// for itself, the others for U+0100 onwards. Source: bytes_to_unicode() of GPT-2.
class ByteAlphabet {
 public:
  static const ByteAlphabet& instance();

  /// The UTF-8 text of a byte's character.
  std::string_view character(std::uint8_t byte) const noexcept {
    return {characters_[byte].data(), static_cast<std::size_t>(characters_[byte][1] == 0 ? 1 : 2)};
  }

  /// Bytes to characters.
  std::string spell(std::string_view bytes) const;

  /// Appends the bytes that a token's characters stand for; a token with any other character is appended as it is.
  void append_bytes(std::string_view token, std::string& bytes) const;

  /// Whether every character of the token is one of the 256.
  bool covers(std::string_view token) const noexcept;

 private:
  ByteAlphabet();

  std::array<std::array<char, 2>, 256> characters_{};
  std::array<std::int16_t, 0x180> bytes_{};  ///< by code point; -1 for characters outside
};

}  // namespace mneme
