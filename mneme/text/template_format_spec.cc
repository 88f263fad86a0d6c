#include "mneme/text/template_format_spec.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr std::int64_t kMaxFieldNumber = 1'000'000;  // width or precision of one field
constexpr std::int64_t kMaxFloatPrecision = 1000;

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status == std::errc::invalid_argument || text.starts_with('-')) return std::nullopt;
  if (status != std::errc() || number > kMaxFieldNumber) fail("a format's width exceeds {}", kMaxFieldNumber);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

void take_alignment(std::string_view& text, FormatSpec& spec) {
  if (text.empty()) return;
  std::size_t at = 0;
  next_code_point(text, at);
  if (at < text.size() && is_align(text[at])) {
    spec.fill = text.substr(0, at);
    spec.align = text[at];
    text.remove_prefix(at + 1);
  } else if (is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
}

std::string print_float(double value, const char* format, std::int64_t precision) {
  if (precision > kMaxFloatPrecision) fail("a float's precision {} exceeds {}", precision, kMaxFloatPrecision);
  std::string text(static_cast<std::size_t>(precision) + 400, '\0');  // the largest double has 309 digits
  const int length = std::snprintf(text.data(), text.size(), format, static_cast<int>(precision), value);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// The digits of a float without its sign.
std::string float_digits(double value, const FormatSpec& spec) {
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (!std::isfinite(value))
    return std::string(std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf")) +
           (spec.type == '%' ? "%" : "");
  const std::int64_t precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 'e': return print_float(value, "%.*e", precision);
    case 'E': return print_float(value, "%.*E", precision);
    case 'f':
    case 'F': return print_float(value, "%.*f", precision);
    case 'g':
    case 'n': return print_float(value, spec.alternate ? "%#.*g" : "%.*g", precision);
    case 'G': return print_float(value, spec.alternate ? "%#.*G" : "%.*G", precision);
    case '%': return print_float(value * 100, "%.*f", precision) + "%";
    default: break;
  }
  if (!spec.precision) return repr_float(value);
  std::string text = print_float(value, "%.*g", std::max<std::int64_t>(1, *spec.precision));
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string integer_digits(std::uint64_t value, const FormatSpec& spec) {
  switch (spec.type) {
    case 'b': return (spec.alternate ? "0b" : "") + fmt::format("{:b}", value);
    case 'o': return (spec.alternate ? "0o" : "") + fmt::format("{:o}", value);
    case 'x': return (spec.alternate ? "0x" : "") + fmt::format("{:x}", value);
    case 'X': return (spec.alternate ? "0X" : "") + fmt::format("{:X}", value);
    default: return std::to_string(value);
  }
}

std::string grouped(std::string digits, const FormatSpec& spec) {
  if (spec.grouping == 0) return digits;
  const bool binary = spec.type == 'b' || spec.type == 'o' || spec.type == 'x' || spec.type == 'X';
  const std::size_t group = binary ? 4 : 3;
  std::size_t start = spec.alternate && binary ? 2 : 0;
  const std::size_t end = binary ? digits.size() : std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = end; at > start + group;) {
    at -= group;
    digits.insert(at, 1, spec.grouping);
  }
  return digits;
}

std::string number_field(Run& run, bool negative, std::string digits, const FormatSpec& spec) {
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  digits = grouped(std::move(digits), spec);
  if (spec.align != '=') return padded(run, sign + digits, spec.width, spec.align ? spec.align : '>', spec.fill);
  const auto width = spec.width - static_cast<std::int64_t>(sign.size());
  return sign + padded(run, digits, width, '>', spec.fill);
}

std::string format_text(Run& run, const std::string& text, const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') fail("Unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  std::string_view shown = text;
  if (spec.precision) shown = shown.substr(0, byte_offset(shown, static_cast<std::size_t>(*spec.precision)));
  return padded(run, shown, spec.width, spec.align ? spec.align : '<', spec.fill);
}

std::string format_integer(Run& run, std::int64_t value, const FormatSpec& spec) {
  static constexpr std::string_view kFloats = "eEfFgG%", kIntegers = "bdoxXn";
  if (spec.type != 0 && kFloats.find(spec.type) != std::string_view::npos) {
    const auto real = static_cast<double>(value);
    return number_field(run, real < 0, float_digits(std::abs(real), spec), spec);
  }
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF) fail("%c arg not in range(0x110000)");
    std::string text;
    append_code_point(text, static_cast<char32_t>(value));
    return padded(run, text, spec.width, spec.align ? spec.align : '<', spec.fill);
  }
  if (spec.type != 0 && kIntegers.find(spec.type) == std::string_view::npos) {
    fail("Unknown format code '{}' for object of type 'int'", spec.type);
  }
  if (spec.precision) fail("Precision not allowed in integer format specifier");
  const auto magnitude = value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  return number_field(run, value < 0, integer_digits(magnitude, spec), spec);
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  spec.is_empty = text.empty();
  const std::string whole(text);
  take_alignment(text, spec);
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  spec.alternate = take(text, '#');
  if (take(text, '0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = take_number(text).value_or(0);
  if (!text.empty() && (text[0] == ',' || text[0] == '_')) {
    spec.grouping = text[0];
    text.remove_prefix(1);
  }
  if (take(text, '.')) {
    spec.precision = take_number(text);
    if (!spec.precision) fail("Format specifier missing precision");
  }
  if (text.size() > 1) fail("Invalid format specifier '{}'", whole);
  if (!text.empty()) spec.type = text[0];
  return spec;
}

std::string format_value(Run& run, const Value& value, const FormatSpec& spec) {
  if (spec.is_empty) return to_text(run, value);
  if (value.text()) return format_text(run, *value.text(), spec);
  if (value.is_float()) {
    static constexpr std::string_view kTypes = "eEfFgGn%";
    if (spec.type != 0 && kTypes.find(spec.type) == std::string_view::npos) {
      fail("Unknown format code '{}' for object of type 'float'", spec.type);
    }
    const double real = *value.number();
    return number_field(run, std::signbit(real) && !std::isnan(real), float_digits(std::abs(real), spec), spec);
  }
  if (value.integer()) return format_integer(run, *value.integer(), spec);
  fail("unsupported format string passed to {}.__format__", value.type_name());
}

std::string padded(Run& run, std::string_view text, std::int64_t width, char align, std::string_view fill) {
  const std::int64_t missing = std::max<std::int64_t>(0, width - static_cast<std::int64_t>(count_code_points(text)));
  const std::int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  return TextBuilder(run).repeat(fill, left).append(text).repeat(fill, missing - left).take();
}

}  // namespace mneme::jinja
