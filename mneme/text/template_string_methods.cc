// The methods of Python's str.
#include <algorithm>
#include <unordered_map>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_format_spec.h"
#include "mneme/text/template_methods.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"
#include "mneme/text/template_strings.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr auto kNone = std::string_view::npos;

template <std::string (*Function)(std::string_view)>
Value mapped(Run& run, const Value& self, Arguments arguments) {
  const Parameters none("str method", std::move(arguments), {});
  run.scan(8 * self.text()->size());
  return run.text(Function(*self.text()));
}

template <Side kSide>
Value strip_method(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("strip", std::move(arguments), {"chars"});
  const auto set = given.optional_text(0);
  run.scan(self.text()->size());
  return run.text(std::string(set ? strip(*self.text(), kSide, *set) : strip(*self.text(), kSide)));
}

template <bool kFromRight>
Value split_method(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("split", std::move(arguments), {"sep", "maxsplit"});
  return run.list(split(run, *self.text(), given.optional_text(0), given.integer(1, -1), kFromRight));
}

Value splitlines(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("splitlines", std::move(arguments), {"keepends"});
  std::vector<Value> lines;
  for (const std::string_view line : split_lines(*self.text(), given.truthy(0)))
    lines.push_back(run.text(std::string(line)));
  return run.list(std::move(lines));
}

template <bool kAtEnd>
Value affix_method(Run& run, const Value& self, Arguments arguments) {
  const char* name = kAtEnd ? "endswith" : "startswith";
  const Parameters given(name, std::move(arguments), {"", "start", "end"}, 1);
  const std::string_view text = *self.text();
  const Range range = code_point_range(text, given.value(1), given.value(2));
  const auto matches = [&](const Value& affix) {
    if (!affix.text()) fail("{} first arg must be str or a tuple of str, not {}", name, affix.type_name());
    if (!range.valid) return false;
    const std::string_view part = text.substr(range.start, range.stop - range.start);
    return kAtEnd ? part.ends_with(*affix.text()) : part.starts_with(*affix.text());
  };
  run.scan(text.size());
  const Value affix = given.value(0);
  if (affix.is_undefined()) fail("{}", affix.undefined_message());
  if (!affix.is_sequence(Sequence::Kind::kTuple)) return matches(affix);
  const auto& all = affix.sequence()->items;
  run.step(all.size());
  return std::any_of(all.begin(), all.end(), matches);
}

template <bool kFromRight, bool kMustBeThere>
Value search(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("find", std::move(arguments), {"", "start", "end"}, 1);
  const std::string_view text = *self.text();
  run.scan(2 * text.size());
  const Range range = code_point_range(text, given.value(1), given.value(2));
  const std::string needle = given.text(0);
  std::size_t at = kNone;
  if (range.valid) {
    const std::string_view part = text.substr(range.start, range.stop - range.start);
    at = kFromRight ? find_last_text(part, needle) : find_text(part, needle);
  }
  if (at == kNone && kMustBeThere) fail("substring not found");
  if (at == kNone) return -1;
  return static_cast<std::int64_t>(count_code_points(text.substr(0, range.start + at)));
}

Value count(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("count", std::move(arguments), {"", "start", "end"}, 1);
  const std::string_view text = *self.text();
  const Range range = code_point_range(text, given.value(1), given.value(2));
  run.scan(text.size());
  if (!range.valid) return 0;
  return count_occurrences(text.substr(range.start, range.stop - range.start), given.text(0));
}

Value replace_method(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("replace", std::move(arguments), {"", " ", "  "}, 2);
  return Value(replace(run, *self.text(), given.text(0), given.text(1), given.integer(2, -1)));
}

Value join_method(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("join", std::move(arguments), {""}, 1);
  TextBuilder out(run);
  bool first = true;
  for (const Value& item : iterate(run, given.value(0))) {
    if (!item.text()) fail("sequence item: expected str instance, {} found", item.type_name());
    if (!std::exchange(first, false)) out.append(*self.text());
    out.append(*item.text());
  }
  return Value(out.take());
}

template <bool kFromRight>
Value partition(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("partition", std::move(arguments), {""}, 1);
  const std::string separator = given.text(0);
  const std::string& text = *self.text();
  if (separator.empty()) fail("empty separator");
  run.scan(2 * text.size());
  const std::size_t at = kFromRight ? find_last_text(text, separator) : find_text(text, separator);
  std::vector<Value> parts;
  if (at != kNone) {
    parts = {run.text(text.substr(0, at)), Value(separator), run.text(text.substr(at + separator.size()))};
  } else if (kFromRight) {
    parts = {Value(""), Value(""), self};
  } else {
    parts = {self, Value(""), Value("")};
  }
  return run.list(std::move(parts), Sequence::Kind::kTuple);
}

template <bool kAtEnd>
Value remove_affix(Run& run, const Value& self, Arguments arguments) {
  const Parameters given(kAtEnd ? "removesuffix" : "removeprefix", std::move(arguments), {""}, 1);
  const std::string affix = given.text(0);
  const std::string& text = *self.text();
  if (kAtEnd ? !text.ends_with(affix) : !text.starts_with(affix)) return self;
  return run.text(kAtEnd ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

template <char kAlign>
Value justify(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("justify", std::move(arguments), {"", " "}, 1);
  const std::string fill = given.text(1, " ");
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  if (kAlign == '^') return Value(centered(run, *self.text(), given.integer(0, 0), fill));
  return Value(padded(run, *self.text(), given.integer(0, 0), kAlign, fill));
}

Value zfill(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("zfill", std::move(arguments), {""}, 1);
  std::string_view text = *self.text();
  std::string sign;
  if (text.starts_with('-') || text.starts_with('+')) {
    sign = text.substr(0, 1);
    text.remove_prefix(1);
  }
  const auto width = std::max<std::int64_t>(0, given.integer(0, 0)) - static_cast<std::int64_t>(sign.size());
  return Value(sign + padded(run, text, width, '>', "0"));
}

Value expandtabs(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("expandtabs", std::move(arguments), {"tabsize"});
  const std::int64_t size = std::max<std::int64_t>(0, given.integer(0, 8));
  TextBuilder out(run);
  std::int64_t column = 0;
  const std::string& text = *self.text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c == '\t') {
      const std::int64_t n = size == 0 ? 0 : size - column % size;
      out.repeat(" ", n);
      column += n;
    } else {
      out.append(std::string_view(text).substr(start, at - start));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return Value(out.take());
}

Value format_method(Run& run, const Value& self, Arguments arguments) {
  return Value(format_fields(run, *self.text(), arguments));
}

Value format_map(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("format_map", std::move(arguments), {""}, 1);
  const Value mapping = given.value(0);
  if (!mapping.dict()) fail("format_map() needs a mapping, not {}", mapping.type_name());
  Arguments fields;
  for (const auto& [canonical, key, value] : mapping.dict()->entries()) {
    if (key.text()) fields.named.emplace_back(*key.text(), value);
  }
  return Value(format_fields(run, *self.text(), fields));
}

template <bool (*Test)(std::string_view)>
Value question(Run& run, const Value& self, Arguments arguments) {
  const Parameters none("str method", std::move(arguments), {});
  run.scan(8 * self.text()->size());
  return Test(*self.text());
}

}  // namespace

NativeFunction find_string_method(std::string_view name) {
  static const std::unordered_map<std::string_view, NativeFunction> kMethods = {
      {"capitalize", mapped<to_capitalized>},
      {"casefold", mapped<case_folded>},
      {"center", justify<'^'>},
      {"count", count},
      {"endswith", affix_method<true>},
      {"expandtabs", expandtabs},
      {"find", search<false, false>},
      {"format", format_method},
      {"format_map", format_map},
      {"index", search<false, true>},
      {"isalnum", question<all_alphanumeric>},
      {"isalpha", question<all_alphabetic>},
      {"isascii", question<all_ascii>},
      {"isdecimal", question<all_decimal>},
      {"isdigit", question<all_digits>},
      {"isidentifier", question<is_identifier>},
      {"islower", question<all_lower>},
      {"isnumeric", question<all_numeric>},
      {"isprintable", question<all_printable>},
      {"isspace", question<all_space>},
      {"istitle", question<is_title>},
      {"isupper", question<all_upper>},
      {"join", join_method},
      {"ljust", justify<'<'>},
      {"lower", mapped<to_lower>},
      {"lstrip", strip_method<Side::kLeft>},
      {"partition", partition<false>},
      {"removeprefix", remove_affix<false>},
      {"removesuffix", remove_affix<true>},
      {"replace", replace_method},
      {"rfind", search<true, false>},
      {"rindex", search<true, true>},
      {"rjust", justify<'>'>},
      {"rpartition", partition<true>},
      {"rsplit", split_method<true>},
      {"rstrip", strip_method<Side::kRight>},
      {"split", split_method<false>},
      {"splitlines", splitlines},
      {"startswith", affix_method<false>},
      {"strip", strip_method<Side::kBoth>},
      {"swapcase", mapped<swap_case>},
      {"title", mapped<to_title>},
      {"upper", mapped<to_upper>},
      {"zfill", zfill},
  };
  const auto it = kMethods.find(name);
  return it == kMethods.end() ? nullptr : it->second;
}

}  // namespace mneme::jinja
