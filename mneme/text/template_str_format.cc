// str.format: replacement fields, their paths and their nested specifications.
#include <charconv>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_format_spec.h"
#include "mneme/text/template_operators.h"

namespace mneme::jinja {
namespace {

constexpr int kMaxSpecNesting = 2;  // a field inside of a field's specification, as in Python

std::optional<std::int64_t> as_index(std::string_view text) {
  std::int64_t index = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = status == std::errc() && end == text.data() + text.size() && index >= 0;
  return whole ? std::optional(index) : std::nullopt;
}

class FieldFormatter {
 public:
  FieldFormatter(Run& run, const Arguments& arguments) : run_(run), arguments_(arguments) {}

  std::string format(std::string_view text, int nesting) {
    if (nesting > kMaxSpecNesting) fail("Max string recursion exceeded");
    TextBuilder out(run_);
    while (!text.empty()) {
      const std::size_t brace = text.find_first_of("{}");
      out.append(text.substr(0, brace));
      if (brace == std::string_view::npos) break;
      const char kind = text[brace];
      text.remove_prefix(brace + 1);
      if (text.starts_with(kind)) {
        out.append(text.substr(0, 1));
        text.remove_prefix(1);
      } else if (kind == '}') {
        fail("Single '}}' encountered in format string");
      } else {
        const std::size_t end = field_end(text);
        out.append(field(text.substr(0, end), nesting));
        text.remove_prefix(end + 1);
      }
    }
    return out.take();
  }

 private:
  static std::size_t field_end(std::string_view text) {
    int open = 1;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{') ++open;
      if (text[i] == '}' && --open == 0) return i;
    }
    fail("expected '}}' before end of string");
  }

  std::string field(std::string_view text, int nesting) {
    std::size_t name_end = text.find_first_of("!:[");
    while (name_end != std::string_view::npos && text[name_end] == '[') {
      const std::size_t close = text.find(']', name_end);
      if (close == std::string_view::npos) fail("expected '}}' before end of string");
      name_end = text.find_first_of("!:[", close);
    }
    const std::string_view name = text.substr(0, name_end);
    text.remove_prefix(name.size());
    Value value = lookup(name);
    if (text.starts_with('!')) {
      const char conversion = text.size() > 1 ? text[1] : '\0';
      if (conversion != 's' && conversion != 'r') fail("Unknown conversion specifier in format string");
      value = Value(conversion == 's' ? to_text(run_, value) : repr(run_, value));
      text.remove_prefix(2);
    }
    if (!text.empty() && text[0] != ':') fail("expected ':' after conversion specifier");
    const std::string spec = text.empty() ? "" : format(text.substr(1), nesting + 1);
    return format_value(run_, value, parse_format_spec(spec));
  }

  Value lookup(std::string_view path) {
    const std::size_t end = path.find_first_of(".[");
    Value value = first(path.substr(0, end));
    path.remove_prefix(std::min(end, path.size()));
    while (!path.empty()) {
      const bool is_attribute = path[0] == '.';
      const std::size_t stop = is_attribute ? path.find_first_of(".[", 1) : path.find(']');
      if (!is_attribute && (path[0] != '[' || stop == std::string_view::npos)) fail("Missing ']' in format string");
      const std::string key(path.substr(1, stop - 1));
      if (key.empty()) fail("Empty attribute in format string");
      const auto index = as_index(key);
      value =
          is_attribute ? get_attribute(run_, value, key) : get_item(run_, value, index ? Value(*index) : Value(key));
      path.remove_prefix(std::min(is_attribute ? stop : stop + 1, path.size()));
    }
    return value;
  }

  Value first(std::string_view name) {
    const auto index = name.empty() ? automatic() : as_index(name);
    if (index) {
      if (!name.empty()) manual_ = true;
      if (automatic_ > 0 && manual_)
        fail("cannot switch between manual field specification and automatic field numbering");
      if (static_cast<std::size_t>(*index) >= arguments_.positional.size()) {
        fail("Replacement index {} out of range for positional args tuple", *index);
      }
      return arguments_.positional[static_cast<std::size_t>(*index)];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    fail("the format string names '{}', which is not among the arguments", name);
  }

  std::optional<std::int64_t> automatic() { return automatic_++; }

  Run& run_;
  const Arguments& arguments_;
  std::int64_t automatic_ = 0;
  bool manual_ = false;
};

}  // namespace

std::string format_fields(Run& run, std::string_view text, const Arguments& arguments) {
  return FieldFormatter(run, arguments).format(text, 1);
}

}  // namespace mneme::jinja
