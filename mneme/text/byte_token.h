#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace mneme {

/// The byte that a byte-fallback token <0x00> to <0xFF> stands for; nothing for any other token.
inline std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace mneme
