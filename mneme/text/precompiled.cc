#include "mneme/text/precompiled.h"

#include <bit>
#include <cstring>

#include "mneme/base/error.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string from_base64(std::string_view text, std::string_view file) {
  check(text.size() % 4 == 0, ErrorKind::kCorruptData, "{}: \"precompiled_charsmap\" has {} digits, no multiple of 4",
        file, text.size());
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    check(digit != kDigits.npos, ErrorKind::kCorruptData, "{}: \"precompiled_charsmap\" is not base64", file);
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 255);
  }
  return bytes;
}

/// A unit of a double array (darts-clone): the byte that leads to it, where its children lie, whether a key ends here.
struct Unit {
  std::uint32_t bits;
  std::uint32_t label() const { return bits & (1u << 31 | 255); }
  std::uint32_t offset() const { return bits >> 10 << ((bits & 1u << 9) >> 6); }
  bool has_value() const { return bits >> 8 & 1; }
  std::uint32_t value() const { return bits & ~(1u << 31); }
};

}  // namespace

PrecompiledMap::PrecompiledMap(std::string_view base64, std::string_view file) {
  const std::string bytes = from_base64(base64, file);
  std::uint32_t n_bytes = 0;
  static_assert(std::endian::native == std::endian::little);
  if (bytes.size() >= 4) std::memcpy(&n_bytes, bytes.data(), 4);
  check(bytes.size() >= 4 && n_bytes % 4 == 0 && n_bytes <= bytes.size() - 4, ErrorKind::kCorruptData,
        "{}: \"precompiled_charsmap\" of {} bytes has no room for a trie of {}", file, bytes.size(), n_bytes);
  trie_.resize(n_bytes / 4);
  if (n_bytes > 0) std::memcpy(trie_.data(), bytes.data() + 4, n_bytes);
  texts_ = bytes.substr(4 + n_bytes);
  check(to_valid_utf8(texts_) == texts_, ErrorKind::kCorruptData,
        "{}: the replacements of \"precompiled_charsmap\" are not UTF-8", file);
}

std::optional<std::string_view> PrecompiledMap::replacement(std::string_view text) const {
  const auto unit = [&](std::size_t at) { return Unit{at < trie_.size() ? trie_[at] : 0}; };
  std::size_t at = unit(0).offset();
  for (const char c : text) {
    const std::uint32_t byte = static_cast<unsigned char>(c);
    at ^= byte;
    const Unit here = unit(at);
    if (byte == 0 || here.label() != byte) return std::nullopt;
    at ^= here.offset();
    if (!here.has_value()) continue;
    // Parity: the shortest key counts, where SentencePiece takes the longest.
    const std::size_t begin = unit(at).value();
    if (begin >= texts_.size() || continues_character(texts_[begin])) return std::nullopt;
    return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

bool PrecompiledMap::append(std::string_view grapheme, std::size_t limit, std::string& out) const {
  constexpr std::size_t kWhole = 6;  // bytes; Parity: longer graphemes are never looked up
  if (const auto whole = grapheme.size() < kWhole ? replacement(grapheme) : std::nullopt) {
    out += *whole;
    return out.size() <= limit;
  }
  for_each_code_point(grapheme, [&](char32_t, std::size_t begin, std::size_t end) {
    const std::string_view character = grapheme.substr(begin, end - begin);
    if (out.size() <= limit) out += replacement(character).value_or(character);
  });
  return out.size() <= limit;
}

}  // namespace mneme
