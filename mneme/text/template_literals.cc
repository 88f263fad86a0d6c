#include "mneme/text/template_literals.h"

#include <charconv>
#include <cstdlib>

#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

bool is_digit_of(char c, int base) {
  if (base <= 10) return c >= '0' && c < '0' + base;
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Digits of `base` from `at`, single underscores between them allowed; returns where they end.
std::size_t scan_digits(std::string_view source, std::size_t at, int base, std::string& digits) {
  while (at < source.size()) {
    const bool joins = source[at] == '_' && at + 1 < source.size() && is_digit_of(source[at + 1], base);
    if (joins) ++at;
    if (!is_digit_of(source[at], base)) break;
    digits += source[at++];
  }
  return at;
}

int base_of(std::string_view source) {
  if (source.size() < 3 || source[0] != '0') return 10;
  const char mark = static_cast<char>(source[1] | 0x20);
  const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
  const std::size_t first = source[2] == '_' ? 3 : 2;
  return base != 10 && first < source.size() && is_digit_of(source[first], base) ? base : 10;
}

std::size_t scan_exponent(std::string_view source, std::size_t at, std::string& digits) {
  if (at >= source.size() || (source[at] | 0x20) != 'e') return at;
  std::string exponent = "e";
  std::size_t next = at + 1;
  if (next < source.size() && (source[next] == '+' || source[next] == '-')) exponent += source[next++];
  if (next >= source.size() || !is_digit_of(source[next], 10)) return at;
  next = scan_digits(source, next, 10, exponent);
  digits += exponent;
  return next;
}

// Python: a fraction needs a digit behind the point, an exponent may stand alone.
bool scan_float(std::string_view source, NumberLiteral& literal) {
  std::string digits;
  const std::size_t whole = scan_digits(source, 0, 10, digits);
  std::size_t at = whole;
  if (at + 1 < source.size() && source[at] == '.' && is_digit_of(source[at + 1], 10)) {
    digits += '.';
    at = scan_digits(source, at + 1, 10, digits);
  }
  at = scan_exponent(source, at, digits);
  if (at == whole) return false;
  literal = {.length = at, .is_float = true, .number = std::strtod(digits.c_str(), nullptr)};
  return true;
}

std::size_t hex_escape(std::string_view body, std::size_t at, std::size_t digits, std::string& out,
                       std::string& error) {
  std::uint32_t code = 0;
  const auto* begin = body.data() + at;
  const bool whole = at + digits <= body.size();
  const auto [end, status] = std::from_chars(begin, begin + (whole ? digits : 0), code, 16);
  if (!whole || status != std::errc() || end != begin + digits) {
    error = "a string has a truncated \\x, \\u or \\U escape";
  } else if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    error = "a string has an escape that is no Unicode character";
  } else {
    append_code_point(out, code);
  }
  return at + digits;
}

std::size_t octal_escape(std::string_view body, std::size_t at, std::string& out) {
  char32_t code = 0;
  const std::size_t end = at + 3;
  for (; at < end && at < body.size() && is_digit_of(body[at], 8); ++at) {
    code = code * 8 + static_cast<char32_t>(body[at] - '0');
  }
  append_code_point(out, code);
  return at;
}

}  // namespace

NumberLiteral scan_number(std::string_view source, bool allow_float) {
  NumberLiteral literal;
  const int base = base_of(source);
  if (allow_float && base == 10 && scan_float(source, literal)) return literal;
  std::string digits;
  if (base == 10 && source[0] == '0') {
    while (literal.length < source.size() && source[literal.length] == '0') ++literal.length;
    return literal;  // "007" is 0 and then 7, as in Jinja
  }
  literal.length = scan_digits(source, base == 10 ? 0 : 2, base, digits);
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), literal.integer, base);
  literal.overflows = status == std::errc::result_out_of_range;
  return literal;
}

std::string normalize_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string unescape(std::string_view body, std::string& error) {
  static constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (std::size_t at = 0; at < body.size() && error.empty();) {
    const char c = body[at++];
    if (c != '\\' || at == body.size()) {
      out += c;
      continue;
    }
    const char escape = body[at++];
    if (const auto known = kLetters.find(escape); known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (escape == 'x') {
      at = hex_escape(body, at, 2, out, error);
    } else if (escape == 'u') {
      at = hex_escape(body, at, 4, out, error);
    } else if (escape == 'U') {
      at = hex_escape(body, at, 8, out, error);
    } else if (is_digit_of(escape, 8)) {
      at = octal_escape(body, at - 1, out);
    } else if (escape == 'N') {
      error = "a string names a character with \\N{...}, which is not supported: write it as \\u and its number";
    } else if (escape != '\n') {
      out += '\\';  // Python keeps the backslash of an escape that it does not know
      out += escape;
    }
  }
  return out;
}

}  // namespace mneme::jinja
