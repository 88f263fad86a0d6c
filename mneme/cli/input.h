#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::cli {

/// The bytes of a file, or of standard input for "-". Throws Error(kIo).
std::string read_text(const std::string& path);

/// "1,2,3" as numbers; spaces are allowed. Throws Error(kInvalidArgument) naming what is not a number.
std::vector<std::int64_t> parse_numbers(std::string_view text);

}  // namespace mneme::cli
