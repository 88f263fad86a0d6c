#pragma once

#include <string>
#include <string_view>

/// The few filters that know HTML and URLs.
namespace mneme::jinja {

/// &, <, >, ' and " as entities.
std::string escape_html(std::string_view text);
/// The text without comments and tags, white space runs made one space, entities resolved.
std::string strip_tags(std::string_view text);
/// Percent encoding of UTF-8; in a query "/" is encoded too and a space is "+".
std::string url_quote(std::string_view text, bool is_query);

}  // namespace mneme::jinja
