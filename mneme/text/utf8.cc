#include "mneme/text/utf8.h"

#include <cstdint>

namespace mneme {

CodePoint read_code_point(std::string_view text, std::size_t position) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[position + i]); };
  const std::size_t left = text.size() - position;
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};

  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {0xfffd, 1, false, false};
  char32_t value = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == left) return {0xfffd, i, false, true};
    // The second byte alone rules out overlong forms, surrogates and what lies past U+10FFFF.
    const bool second = i == 1;
    const std::uint8_t low = second && lead == 0xe0 ? 0xa0 : second && lead == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = second && lead == 0xed ? 0x9f : second && lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high) return {0xfffd, i, false, false};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  return {value, length, true, false};
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = read_code_point(text, i);
    if (c.valid) {
      valid.append(text, i, c.length);
    } else {
      append_utf8(valid, 0xfffd);
    }
    i += c.length;
  }
  return valid;
}

}  // namespace mneme
