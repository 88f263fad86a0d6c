#include "mneme/text/template_filters.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr std::array<std::string_view, 4> kLeftOut = {"random", "urlize", "wordwrap", "xmlattr"};

NativeFunction find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_number_filter, find_list_filter, find_select_filter}) {
    if (NativeFunction filter = find(name)) return filter;
  }
  return nullptr;
}

Value path_part(std::string_view part) {
  std::int64_t index = 0;
  const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), index);
  const bool whole = !part.empty() && part[0] != '-' && status == std::errc() && end == part.data() + part.size();
  return whole ? Value(index) : Value(part);
}

}  // namespace

Value apply_filter(Run& run, std::string_view name, const Value& input, Arguments arguments) {
  if (NativeFunction filter = find_filter(name)) return filter(run, input, std::move(arguments));
  if (std::find(kLeftOut.begin(), kLeftOut.end(), name) != kLeftOut.end()) {
    fail_unsupported("the filter '{}' is not supported in chat templates", name);
  }
  fail("No filter named '{}'", name);
}

bool is_filter(std::string_view name) {
  return find_filter(name) || std::find(kLeftOut.begin(), kLeftOut.end(), name) != kLeftOut.end();
}

Value follow_path(Run& run, Value item, const Value& path, const Value& otherwise) {
  if (path.is_none()) return item;
  const auto part_of = [&](const Value& whole, const Value& part) {
    Value found = get_item(run, whole, part);
    return found.is_undefined() && !otherwise.is_none() ? otherwise : found;
  };
  if (!path.text()) return part_of(item, path);
  std::string_view rest = *path.text();
  while (true) {
    const std::size_t dot = rest.find('.');
    run.step();
    item = part_of(item, path_part(rest.substr(0, dot)));
    if (dot == std::string_view::npos) return item;
    rest.remove_prefix(dot + 1);
  }
}

Value ignore_case(Run& run, const Value& value) { return value.text() ? run.text(to_lower(*value.text())) : value; }

}  // namespace mneme::jinja
