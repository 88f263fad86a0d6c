#include "mneme/text/template_numbers.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

bool is_ascii_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The text without its underscores, or nothing where one does not stand between two digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_ascii_alphanumeric(text[i - 1]) ||
               !is_ascii_alphanumeric(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

// Takes "0x", "0o" or "0b" where it goes with the base; base 0 takes any of them.
int take_prefix(std::string_view& text, int base) {
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      text.remove_prefix(text[2] == '_' ? 3 : 2);
      return named;
    }
  }
  return base == 0 ? 10 : base;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text, Side::kBoth);
  std::string sign;
  if (text.starts_with('-') || text.starts_with('+')) {
    if (text[0] == '-') sign = "-";
    text.remove_prefix(1);
  }
  const bool may_have_zeros = base != 0;
  base = take_prefix(text, base);
  auto digits = without_underscores(text);
  if (!digits || digits->empty() || !is_ascii_alphanumeric(digits->front())) return std::nullopt;
  if (!may_have_zeros && base == 10 && digits->front() == '0' && digits->find_first_not_of('0') != std::string::npos) {
    return std::nullopt;
  }
  const std::string whole = sign + *digits;
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(whole.data(), whole.data() + whole.size(), value, base);
  const bool read = status == std::errc() && end == whole.data() + whole.size();
  return read ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_float(std::string_view text) {
  const auto digits = without_underscores(strip(text, Side::kBoth));
  if (!digits || digits->empty()) return std::nullopt;
  // strtod reads hexadecimal floats and "nan(...)" as well, which Python does not.
  if (digits->find_first_of("xXpP(") != std::string::npos || is_space(static_cast<unsigned char>(digits->front()))) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(digits->c_str(), &end);
  return end == digits->c_str() + digits->size() ? std::optional(value) : std::nullopt;
}

}  // namespace mneme::jinja
