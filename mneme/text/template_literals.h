#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Number and string literals as Jinja and Python write them.
namespace mneme::jinja {

struct NumberLiteral {
  std::size_t length = 0;  ///< bytes of source it takes
  bool is_float = false;
  bool overflows = false;  ///< an integer that needs more than 64 bits
  std::int64_t integer = 0;
  double number = 0;
};

/// The literal that `source` starts with; its first byte is a digit. `allow_float` false reads only an integer.
NumberLiteral scan_number(std::string_view source, bool allow_float);

/// "\r\n" and "\r" become "\n".
std::string normalize_newlines(std::string_view text);

/// What stands between the quotes, with Python's escapes resolved. Sets `error` where an escape is malformed.
std::string unescape(std::string_view body, std::string& error);

}  // namespace mneme::jinja
