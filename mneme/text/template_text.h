#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Python's str on UTF-8 bytes: lengths, positions and character classes count code points.
namespace mneme::jinja {

bool is_utf8(std::string_view text);

/// The code point at byte `at`, which moves behind it. A byte that starts none gives U+FFFD and moves by one.
char32_t next_code_point(std::string_view text, std::size_t& at);
void append_code_point(std::string& text, char32_t code_point);
std::vector<char32_t> code_points(std::string_view text);
std::string from_code_points(const std::vector<char32_t>& points);

std::size_t count_code_points(std::string_view text);
/// The byte offset of code point number `index`; text.size() at and past the end.
std::size_t byte_offset(std::string_view text, std::size_t index);

bool is_space(char32_t c);       ///< str.isspace, also what \s and strip() mean
bool is_line_break(char32_t c);  ///< where splitlines splits ("\r\n" counts as one)
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_printable(char32_t c);  ///< repr() escapes the others
bool is_name_start(char32_t c);
bool is_name_part(char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);        ///< str.title: the first letter of every run of letters
std::string to_capitalized(std::string_view text);  ///< first upper, rest lower
std::string swap_case(std::string_view text);
std::string case_folded(std::string_view text);

enum class Side { kLeft = 1, kRight = 2, kBoth = 3 };

/// str.strip, lstrip, rstrip: drops code points of `set`, or white space without one.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> set = std::nullopt);

/// First occurrence at or after `from`, npos if none; linear in the text whatever the needle.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from = 0);
std::size_t find_last_text(std::string_view text, std::string_view needle);

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

}  // namespace mneme::jinja
