#include "mneme/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "mneme/base/error.h"
#include "mneme/text/unicode_ages.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

utf8proc_category_t category(char32_t c) noexcept { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

template <class... Categories>
bool has_category(char32_t c, Categories... wanted) noexcept {
  const utf8proc_category_t actual = category(c);
  return ((actual == wanted) || ...);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

bool is_whitespace(char32_t c) noexcept {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_numeric(char32_t c) noexcept {
  if (c < 0x80) return c >= '0' && c <= '9';
  return has_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80) return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  if (c == 0x166d || c == 0x111c9) return true;  // until Unicode 12 and 11
  return has_category(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
                      UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO) &&
         !is_behind_unicode8(c);
}

bool is_mark(char32_t c) noexcept {
  if (c == 0x1cf2 || c == 0x1cf3) return true;  // until Unicode 12
  return has_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME) && !is_behind_unicode9(c);
}

bool is_nonspacing_mark(char32_t c) noexcept {
  if (c == 0x1734) return true;  // until Unicode 14
  return has_category(c, UTF8PROC_CATEGORY_MN) && !is_behind_unicode8(c);
}

bool is_invisible_other(char32_t c) noexcept {
  return has_category(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO) && !is_behind_unicode8(c);
}

bool is_chinese_character(char32_t c) noexcept {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  // Parity: BERT's list begins CJK Extension E at 2B920, 256 past its first character.
  return within(0x4e00, 0x9fff) || within(0x3400, 0x4dbf) || within(0x20000, 0x2a6df) || within(0x2a700, 0x2b73f) ||
         within(0x2b740, 0x2b81f) || within(0x2b920, 0x2ceaf) || within(0xf900, 0xfaff) || within(0x2f800, 0x2fa1f);
}

std::string to_lowercase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for_each_code_point(text, [&](char32_t c, std::size_t, std::size_t) {
    // U+0130 is the one character whose full lowercase is longer than one code point.
    if (c == 0x130) {
      lower += "i\u0307";
    } else {
      append_utf8(lower, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  });
  return lower;
}

std::string normalize(std::string_view text, NormalizationForm form) {
  if (is_ascii(text)) return std::string(text);
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd) options |= UTF8PROC_COMPAT;

  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t n_bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  check(n_bytes >= 0, ErrorKind::kOutOfMemory, "Unicode normalization of {} bytes failed: {}", text.size(),
        utf8proc_errmsg(n_bytes));
  return std::string(reinterpret_cast<const char*>(result), static_cast<std::size_t>(n_bytes));
}

std::vector<std::string_view> graphemes(std::string_view text) {
  std::vector<std::string_view> clusters;
  utf8proc_int32_t state = 0, before = 0;
  std::size_t start = 0;
  for_each_code_point(text, [&](char32_t c, std::size_t begin, std::size_t) {
    const auto point = static_cast<utf8proc_int32_t>(c);
    if (begin > 0 && utf8proc_grapheme_break_stateful(before, point, &state)) {
      clusters.push_back(text.substr(start, begin - start));
      start = begin;
    }
    before = point;
  });
  if (!text.empty()) clusters.push_back(text.substr(start));
  return clusters;
}

}  // namespace mneme
