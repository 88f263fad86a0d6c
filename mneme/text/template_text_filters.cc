// Filters that take text, or make it.
#include <algorithm>
#include <unordered_map>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_filters.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_html.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"
#include "mneme/text/template_printf.h"
#include "mneme/text/template_strings.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

template <std::string (*Function)(std::string_view)>
Value mapped(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("filter", std::move(arguments), {});
  const std::string text = to_text(run, input);
  run.scan(8 * text.size());
  return run.text(Function(text));
}

// Jinja's own: words start after white space and after any of -({[<.
std::string title(std::string_view text) {
  std::string out, word;
  const auto flush = [&] {
    std::size_t first = 0;
    if (!word.empty()) next_code_point(word, first);
    out += to_upper(std::string_view(word).substr(0, first)) + to_lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    const bool separates =
        is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    if (!separates) {
      word += text.substr(start, at - start);
      continue;
    }
    flush();
    out += text.substr(start, at - start);
  }
  flush();
  return out;
}

Value trim(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("trim", std::move(arguments), {"chars"});
  const std::string text = to_text(run, input);
  const auto set = given.optional_text(0);
  run.scan(text.size());
  return run.text(std::string(set ? strip(text, Side::kBoth, *set) : strip(text, Side::kBoth)));
}

Value replace_filter(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("replace", std::move(arguments), {"old", "new", "count"}, 2);
  const std::int64_t count = given.value(2).is_none() ? -1 : given.integer(2, -1);
  return Value(replace(run, to_text(run, input), to_text(run, given.value(0)), to_text(run, given.value(1)), count));
}

Value join(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("join", std::move(arguments), {"d", "attribute"});
  const std::string separator = to_text(run, given.value(0, Value("")));
  TextBuilder out(run);
  bool first = true;
  for (const Value& item : iterate(run, input)) {
    if (!std::exchange(first, false)) out.append(separator);
    out.append(to_text(run, follow_path(run, item, given.value(1))));
  }
  return Value(out.take());
}

Value string(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("string", std::move(arguments), {});
  return input.text() ? input : run.text(to_text(run, input));
}

Value center(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("center", std::move(arguments), {"width"});
  return Value(centered(run, to_text(run, input), given.integer(0, 80)));
}

Value indent(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("indent", std::move(arguments), {"width", "first", "blank"});
  if (input.is_undefined()) fail("{}", input.undefined_message());
  if (!input.text()) fail("unsupported operand type(s) for +=: '{}' and 'str'", input.type_name());
  const std::string margin =
      given.value(0).text() ? given.text(0) : TextBuilder(run).repeat(" ", given.integer(0, 4)).take();
  const auto lines = split_lines(*input.text());
  TextBuilder out(run);
  // A line end is added before lines are split: an empty text has one line, and a last line end makes an empty one.
  const std::size_t n_lines =
      lines.size() + (input.text()->empty() || split_lines(*input.text() + "x").size() > lines.size());
  for (std::size_t i = 0; i < n_lines; ++i) {
    const std::string_view line = i < lines.size() ? lines[i] : std::string_view();
    if (i > 0) out.append("\n");
    if (i == 0 ? given.truthy(1) : !line.empty() || given.truthy(2)) out.append(margin);
    out.append(line);
  }
  return Value(out.take());
}

Value tojson(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = given.truthy(0);
  style.sort_keys = given.truthy(3);
  const Value indent = given.value(1);
  if (!indent.is_none()) {
    style.indent = indent.text() ? *indent.text() : TextBuilder(run).repeat(" ", given.integer(1, 0)).take();
    style.item_separator = ",";
  }
  if (given.has(2) && !given.value(2).is_none()) {
    const std::vector<Value> pair = iterate(run, given.value(2));
    if (pair.size() != 2 || !pair[0].text() || !pair[1].text()) fail("tojson(): separators must be two strings");
    style.item_separator = *pair[0].text();
    style.key_separator = *pair[1].text();
  }
  return Value(to_json(run, input, style));
}

Value format(Run& run, const Value& input, Arguments arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("format: positional and keyword arguments cannot be mixed");
  }
  const std::string text = to_text(run, input);
  if (arguments.named.empty()) {
    return Value(percent_format(run, text, run.list(std::move(arguments.positional), Sequence::Kind::kTuple)));
  }
  Dict named;
  for (auto& [name, value] : arguments.named) named.set(name, std::move(value));
  return Value(percent_format(run, text, run.dict(std::move(named))));
}

Value wordcount(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("wordcount", std::move(arguments), {});
  const std::string text = to_text(run, input);
  run.scan(8 * text.size());
  std::int64_t n_words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const bool is_word = c == '_' || is_alpha(c) || is_numeric(c);
    if (is_word && !in_word) ++n_words;
    in_word = is_word;
  }
  return n_words;
}

Value truncate(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("truncate", std::move(arguments), {"length", "killwords", "end", "leeway"});
  if (!input.text()) fail("truncate: a string is needed, not '{}'", input.type_name());
  const std::string& text = *input.text();
  const std::string end = given.text(2, "...");
  const auto n_end = static_cast<std::int64_t>(count_code_points(end));
  const std::int64_t length = given.integer(0, 255);
  const std::int64_t leeway = given.value(3).is_none() ? 5 : given.integer(3, 5);
  if (length < n_end) fail("truncate: expected length >= {}, got {}", n_end, length);
  if (leeway < 0) fail("truncate: expected leeway >= 0, got {}", leeway);
  const auto n_text = static_cast<std::int64_t>(count_code_points(text));
  if (n_text <= length || n_text - length <= leeway) return input;
  std::string kept = text.substr(0, byte_offset(text, static_cast<std::size_t>(length - n_end)));
  const std::size_t space = kept.rfind(' ');
  if (!given.truthy(1) && space != std::string::npos) kept.resize(space);
  return run.text(kept + end);
}

Value urlencode(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("urlencode", std::move(arguments), {});
  const bool is_plain = input.text() || !(input.sequence() || input.dict() || input.iterator());
  if (is_plain) return run.text(url_quote(to_text(run, input), false));
  TextBuilder out(run);
  bool first = true;
  const auto pair = [&](const Value& key, const Value& value) {
    if (!std::exchange(first, false)) out.append("&");
    out.append(url_quote(to_text(run, key), true)).append("=").append(url_quote(to_text(run, value), true));
  };
  if (input.dict()) {
    for (const auto& [canonical, key, value] : input.dict()->entries()) pair(key, value);
    return Value(out.take());
  }
  for (const Value& item : iterate(run, input)) {
    const std::vector<Value> parts = iterate(run, item);
    if (parts.size() != 2) fail("urlencode needs pairs, not {} values", parts.size());
    pair(parts[0], parts[1]);
  }
  return Value(out.take());
}

// One line of at most 80 columns, keys sorted; pprint's way of breaking longer ones is left out.
Value pprint(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("pprint", std::move(arguments), {});
  Value shown = input;
  if (input.dict()) {
    std::vector<Dict::Entry> entries = input.dict()->entries();
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const auto& a, const auto& b) { return less(run, a.key, b.key); });
    Dict sorted;
    for (auto& entry : entries) sorted.set(entry.canonical, entry.key, entry.value);
    shown = run.dict(std::move(sorted));
  }
  std::string text = repr(run, shown);
  if (count_code_points(text) > 80) fail_unsupported("pprint of more than 80 columns is not supported");
  return Value(std::move(text));
}

}  // namespace

NativeFunction find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, NativeFunction> kFilters = {
      {"capitalize", mapped<to_capitalized>},
      {"center", center},
      {"e", mapped<escape_html>},
      {"escape", mapped<escape_html>},
      {"forceescape", mapped<escape_html>},
      {"format", format},
      {"indent", indent},
      {"join", join},
      {"lower", mapped<to_lower>},
      {"pprint", pprint},
      {"replace", replace_filter},
      {"safe", string},
      {"string", string},
      {"striptags", mapped<strip_tags>},
      {"title", mapped<title>},
      {"tojson", tojson},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", mapped<to_upper>},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
  };
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

}  // namespace mneme::jinja
