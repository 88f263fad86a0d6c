#pragma once

#include <string>
#include <string_view>

namespace mneme {

/// A name that a file gives, fit for a message: clipped to 80 bytes, and ASCII without control characters whatever it
/// holds (each other byte becomes '?').
inline std::string printable(std::string_view name) {
  constexpr std::size_t kShown = 80;
  std::string text(name.substr(0, kShown));
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return name.size() > kShown ? text + "..." : text;
}

}  // namespace mneme
