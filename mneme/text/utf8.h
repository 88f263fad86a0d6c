#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mneme {

/// What stands at one place of a byte string that should be UTF-8.
struct CodePoint {
  char32_t value;      ///< U+FFFD unless `valid`
  std::size_t length;  ///< bytes taken; for invalid bytes the longest prefix of a character, at least 1
  bool valid;
  bool cut_off;  ///< invalid only because the text ends inside a character
};

/// Reads the code point that begins at `position` < text.size(). Surrogates and overlong forms are invalid.
/// Source: the Unicode Standard, table 3-7, and its practice of replacing maximal subparts (section 3.9).
CodePoint read_code_point(std::string_view text, std::size_t position) noexcept;

/// Whether a byte of valid UTF-8 continues a character.
constexpr bool continues_character(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// Appends one code point (at most U+10FFFF).
void append_utf8(std::string& text, char32_t code_point);

/// The text with every invalid subsequence replaced by one U+FFFD; valid text comes back unchanged.
std::string to_valid_utf8(std::string_view text);

/// Calls visit(code_point, begin, end) for each character of valid UTF-8.
template <class Visit>
void for_each_code_point(std::string_view text, Visit&& visit) {
  for (std::size_t begin = 0; begin < text.size();) {
    const CodePoint c = read_code_point(text, begin);
    visit(c.value, begin, begin + c.length);
    begin += c.length;
  }
}

}  // namespace mneme
