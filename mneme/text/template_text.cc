#include "mneme/text/template_text.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>

#include "mneme/text/utf8.h"

namespace mneme::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kSharpS = 0xDF;

// The length of the well-formed sequence at `at`, with its code point, or 0.
int decode(std::string_view text, std::size_t at, utf8proc_int32_t& code_point) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  const auto length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
  return length > 0 ? static_cast<int>(length) : 0;
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t title(char32_t c) { return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))); }

void append_upper(std::string& out, char32_t c) {
  if (c == kSharpS) {
    out += "SS";  // the one common letter whose upper case is two
  } else {
    append_code_point(out, upper(c));
  }
}

void append_title(std::string& out, char32_t c) {
  if (c == kSharpS) {
    out += "Ss";
  } else {
    append_code_point(out, title(c));
  }
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }

// Greek writes sigma at the end of a word with a letter of its own, as Python's lower() does.
char32_t lower_in(const std::vector<char32_t>& points, std::size_t i) {
  constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
  if (points[i] != kSigma) return lower(points[i]);
  const bool after = i > 0 && is_cased(points[i - 1]);
  const bool before = i + 1 < points.size() && is_cased(points[i + 1]);
  return after && !before ? kFinalSigma : lower(kSigma);
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t code_point = 0;
    const int length = decode(text, at, code_point);
    if (length == 0) return false;
    at += static_cast<std::size_t>(length);
  }
  return true;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    ++at;
    return byte;
  }
  utf8proc_int32_t code_point = 0;
  const int length = decode(text, at, code_point);
  at += length > 0 ? static_cast<std::size_t>(length) : 1;
  return length > 0 ? static_cast<char32_t>(code_point) : kReplacement;
}

void append_code_point(std::string& text, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) points.push_back(next_code_point(text, at));
  return points;
}

std::string from_code_points(const std::vector<char32_t>& points) {
  std::string text;
  text.reserve(points.size());
  for (const char32_t c : points) append_code_point(text, c);
  return text;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (index > 0 && at < text.size()) {
    next_code_point(text, at);
    --index;
  }
  return at;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  const bool superscript = c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079);
  return is_decimal(c) || superscript || (c >= 0x2080 && c <= 0x2089);
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}

bool is_name_start(char32_t c) { return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL; }

bool is_name_part(char32_t c) {
  const auto kind = category(c);
  return is_name_start(c) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_code_point(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < points.size(); ++i) append_code_point(out, lower_in(points, i));
  return out;
}

std::string to_title(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  bool in_word = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (in_word) {
      append_code_point(out, lower_in(points, i));
    } else {
      append_title(out, points[i]);
    }
    in_word = is_cased(points[i]);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      append_title(out, points[0]);
    } else {
      append_code_point(out, lower_in(points, i));
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_code_point(out, lower_in(points, i));
    } else {
      append_upper(out, points[i]);
    }
  }
  return out;
}

std::string case_folded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c == kSharpS) {
      out += "ss";
    } else {
      append_code_point(out, lower(c));
    }
  }
  return out;
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> set) {
  std::vector<char32_t> drop = set ? code_points(*set) : std::vector<char32_t>{};
  std::sort(drop.begin(), drop.end());
  const auto drops = [&](char32_t c) { return set ? std::binary_search(drop.begin(), drop.end(), c) : is_space(c); };
  const auto sides = static_cast<int>(side);
  if (sides & static_cast<int>(Side::kLeft)) {
    std::size_t keep = 0;
    for (std::size_t at = 0; at < text.size() && drops(next_code_point(text, at)); keep = at) {
    }
    text.remove_prefix(keep);
  }
  if (sides & static_cast<int>(Side::kRight)) {
    while (!text.empty()) {
      std::size_t start = text.size() - 1;
      while (start > 0 && continues_character(text[start])) --start;
      std::size_t at = start;
      if (!drops(next_code_point(text, at))) break;
      text.remove_suffix(text.size() - start);
    }
  }
  return text;
}

std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

std::size_t find_last_text(std::string_view text, std::string_view needle) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::size_t at = find_text(backwards, std::string(needle.rbegin(), needle.rend()));
  return at == std::string_view::npos ? at : text.size() - at - needle.size();
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!is_line_break(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace mneme::jinja
