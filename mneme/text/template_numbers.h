#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mneme::jinja {

/// int(text, base) and float(text) of Python: white space around, single underscores between digits. Nothing where
/// Python raises ValueError, and for an integer of more than 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace mneme::jinja
