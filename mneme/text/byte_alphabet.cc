#include "mneme/text/byte_alphabet.h"

#include <algorithm>

#include "mneme/text/utf8.h"

namespace mneme {

const ByteAlphabet& ByteAlphabet::instance() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    const char32_t c = visible ? static_cast<char32_t>(byte) : next++;
    std::string text;
    append_utf8(text, c);
    std::copy(text.begin(), text.end(), characters_[byte].begin());
    bytes_[c] = static_cast<std::int16_t>(byte);
  }
}

std::string ByteAlphabet::spell(std::string_view bytes) const {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += character(static_cast<std::uint8_t>(byte));
  return text;
}

void ByteAlphabet::append_bytes(std::string_view token, std::string& bytes) const {
  if (!covers(token)) {
    bytes += token;
    return;
  }
  for_each_code_point(token, [&](char32_t c, std::size_t, std::size_t) { bytes += static_cast<char>(bytes_[c]); });
}

bool ByteAlphabet::covers(std::string_view token) const noexcept {
  bool all = true;
  for_each_code_point(token,
                      [&](char32_t c, std::size_t, std::size_t) { all = all && c < bytes_.size() && bytes_[c] >= 0; });
  return all;
}

}  // namespace mneme
