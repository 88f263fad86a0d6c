#include "mneme/text/space_cleanup.h"

namespace mneme {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void remove_space_before(std::string& text, std::string_view spaced) { replace_all(text, spaced, spaced.substr(1)); }

/// The steps follow one another, and each sees what the one before left.
std::string clean_up(std::string text, bool shorten_do_not) {
  for (const char* spaced : {" .", " ?", " !", " ,"}) remove_space_before(text, spaced);
  replace_all(text, " ' ", "'");
  for (const char* spaced : {" n't", " 'm"}) remove_space_before(text, spaced);
  if (shorten_do_not) replace_all(text, " do not", " don't");
  for (const char* spaced : {" 's", " 've", " 're"}) remove_space_before(text, spaced);
  return text;
}

}  // namespace

std::string clean_up_spaces(std::string text) { return clean_up(std::move(text), false); }

std::string clean_up_word_piece(std::string text) { return clean_up(std::move(text), true); }

std::size_t certain_before_cleanup(std::string_view text) noexcept {
  // Every replacement starts at a space, and only " ' " holds another one; so a space after a letter or digit is a
  // place that no replacement reaches across.
  const auto is_plain = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
  for (std::size_t at = text.rfind(' '); at != text.npos && at > 0; at = text.rfind(' ', at - 1)) {
    if (is_plain(text[at - 1])) return at;
  }
  return 0;
}

}  // namespace mneme
