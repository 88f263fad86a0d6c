#include "mneme/text/template_html.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr auto kNone = std::string_view::npos;

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kEntities = {{{"&amp;", "&"},
                                                                                     {"&lt;", "<"},
                                                                                     {"&gt;", ">"},
                                                                                     {"&quot;", "\""},
                                                                                     {"&apos;", "'"},
                                                                                     {"&#34;", "\""},
                                                                                     {"&#39;", "'"},
                                                                                     {"&nbsp;", "\u00a0"}}};

// Everything between `open` and the next `close` goes; an open one without a close stays.
std::string without(std::string_view text, std::string_view open, std::string_view close) {
  std::string out;
  while (true) {
    const std::size_t start = find_text(text, open);
    const std::size_t end = start == kNone ? kNone : find_text(text, close, start);
    if (end == kNone) return out.append(text);
    out += text.substr(0, start);
    text.remove_prefix(end + close.size());
  }
}

std::string single_spaced(std::string_view text) {
  std::string out;
  bool pending = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    if (is_space(next_code_point(text, at))) {
      pending = !out.empty();
      continue;
    }
    if (std::exchange(pending, false)) out += ' ';
    out += text.substr(start, at - start);
  }
  return out;
}

std::string resolve_entities(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t taken = 1;
    std::string_view meaning = text.substr(0, 1);
    for (const auto& [entity, character] : kEntities) {
      if (!text.starts_with(entity)) continue;
      taken = entity.size();
      meaning = character;
    }
    out += meaning;
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string strip_tags(std::string_view text) {
  return resolve_entities(single_spaced(without(without(text, "<!--", "-->"), "<", ">")));
}

std::string url_quote(std::string_view text, bool is_query) {
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || std::string_view("_.-~").find(c) != kNone || (c == '/' && !is_query)) {
      out += c;
    } else if (c == ' ' && is_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace mneme::jinja
