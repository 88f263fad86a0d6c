#include "mneme/text/template_strings.h"

#include <algorithm>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format_spec.h"
#include "mneme/text/template_text.h"
#include "mneme/text/utf8.h"

namespace mneme::jinja {
namespace {

constexpr auto kNone = std::string_view::npos;

// Words from the right, then turned around; the rest keeps its inner white space.
std::vector<std::string_view> split_words_right(std::string_view text, std::int64_t max_splits) {
  std::vector<std::string_view> words;
  text = strip(text, Side::kRight);
  while (!text.empty() && max_splits != 0) {
    std::size_t start = text.size();
    while (start > 0) {
      std::size_t previous = start - 1;
      while (previous > 0 && continues_character(text[previous])) --previous;
      std::size_t at = previous;
      if (is_space(next_code_point(text, at))) break;
      start = previous;
    }
    words.push_back(text.substr(start));
    text = strip(text.substr(0, start), Side::kRight);
    --max_splits;
  }
  if (!text.empty()) words.push_back(text);
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string_view> split_words(std::string_view text, std::int64_t max_splits) {
  std::vector<std::string_view> words;
  text = strip(text, Side::kLeft);
  while (!text.empty() && max_splits != 0) {
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size() && !is_space(next_code_point(text, at));) end = at;
    words.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
    --max_splits;
  }
  if (!text.empty()) words.push_back(text);
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  for (; max_splits != 0; --max_splits) {
    const std::size_t at = find_text(text, separator, start);
    if (at == kNone) break;
    parts.push_back(text.substr(start, at - start));
    start = at + separator.size();
  }
  parts.push_back(text.substr(start));
  return parts;
}

template <bool (*Test)(char32_t)>
bool all(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (!Test(next_code_point(text, at))) return false;
  }
  return !text.empty();
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_numeric(c); }

// Whether there is a letter with case, and none that `Other` finds.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
bool all_cased(std::string_view text) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (Other(c)) return false;
    found = found || Wanted(c);
  }
  return found;
}

}  // namespace

Range code_point_range(std::string_view text, const Value& start, const Value& stop) {
  const auto n = static_cast<std::int64_t>(count_code_points(text));
  const auto resolve = [&](const Value& bound, std::int64_t otherwise) {
    if (bound.is_none()) return otherwise;
    const auto given = bound.integer();
    if (!given) fail("slice indices must be integers or None, not {}", bound.type_name());
    return *given < 0 ? std::max<std::int64_t>(*given + n, 0) : *given;
  };
  const std::int64_t from = resolve(start, 0), to = std::min(resolve(stop, n), n);
  if (from > to) return {0, 0, false};
  return {byte_offset(text, static_cast<std::size_t>(from)), byte_offset(text, static_cast<std::size_t>(to)), true};
}

std::vector<Value> split(Run& run, std::string_view text, const std::optional<std::string>& separator,
                         std::int64_t max_splits, bool from_right) {
  if (separator && separator->empty()) fail("empty separator");
  run.scan(2 * text.size());
  std::vector<std::string_view> parts;
  if (!separator) {
    parts = from_right ? split_words_right(text, max_splits) : split_words(text, max_splits);
  } else if (!from_right || max_splits < 0) {
    parts = split_at(text, *separator, max_splits);
  }
  std::vector<Value> values;
  if (separator && from_right && max_splits >= 0) {
    // From the right: the same on the text turned around.
    const std::string backwards(text.rbegin(), text.rend());
    auto pieces = split_at(backwards, std::string(separator->rbegin(), separator->rend()), max_splits);
    std::reverse(pieces.begin(), pieces.end());
    for (const std::string_view piece : pieces) values.push_back(run.text(std::string(piece.rbegin(), piece.rend())));
  }
  for (const std::string_view part : parts) {
    run.build(sizeof(Value));
    values.push_back(run.text(std::string(part)));
  }
  return values;
}

std::string replace(Run& run, std::string_view text, std::string_view old, std::string_view with, std::int64_t count) {
  run.scan(text.size());
  TextBuilder out(run);
  std::size_t start = 0;
  if (old.empty()) {
    // Python puts `with` before every character and at the end.
    for (; count != 0 && start < text.size(); --count) {
      const std::size_t from = start;
      next_code_point(text, start);
      out.append(with).append(text.substr(from, start - from));
    }
    if (count != 0) out.append(with);
    return out.append(text.substr(start)).take();
  }
  for (; count != 0; --count) {
    const std::size_t at = find_text(text, old, start);
    if (at == kNone) break;
    out.append(text.substr(start, at - start)).append(with);
    start = at + old.size();
  }
  return out.append(text.substr(start)).take();
}

std::int64_t count_occurrences(std::string_view text, std::string_view needle) {
  if (needle.empty()) return static_cast<std::int64_t>(count_code_points(text)) + 1;
  std::int64_t n = 0;
  for (std::size_t at = 0; (at = find_text(text, needle, at)) != kNone; at += needle.size()) ++n;
  return n;
}

std::string centered(Run& run, std::string_view text, std::int64_t width, std::string_view fill) {
  const std::int64_t missing = std::max<std::int64_t>(0, width - static_cast<std::int64_t>(count_code_points(text)));
  // Parity: CPython's str.center puts the odd column left only where the width is odd as well.
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return TextBuilder(run).repeat(fill, left).append(text).repeat(fill, missing - left).take();
}

bool all_alphanumeric(std::string_view text) { return all<is_alphanumeric>(text); }
bool all_alphabetic(std::string_view text) { return all<is_alpha>(text); }
bool all_decimal(std::string_view text) { return all<is_decimal>(text); }
bool all_digits(std::string_view text) { return all<is_digit>(text); }
bool all_numeric(std::string_view text) { return all<is_numeric>(text); }
bool all_space(std::string_view text) { return all<is_space>(text); }
bool all_printable(std::string_view text) { return text.empty() || all<is_printable>(text); }
bool all_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
bool all_lower(std::string_view text) { return all_cased<is_lower, is_upper>(text); }
bool all_upper(std::string_view text) { return all_cased<is_upper, is_lower>(text); }

bool is_title(std::string_view text) {
  bool in_word = false, found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_upper(c) == in_word && (is_upper(c) || is_lower(c))) return false;
    in_word = is_upper(c) || is_lower(c);
    found = found || in_word;
  }
  return found;
}

bool is_identifier(std::string_view text) {
  std::size_t at = 0;
  if (text.empty() || !is_name_start(next_code_point(text, at))) return false;
  return at == text.size() || all<is_name_part>(text.substr(at));
}

}  // namespace mneme::jinja
