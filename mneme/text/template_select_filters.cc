// Filters that apply another filter or a test to every item.
#include <algorithm>
#include <unordered_map>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_filters.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_tests.h"

namespace mneme::jinja {
namespace {

// Takes the first argument, where there is one.
std::optional<Value> take_first(Arguments& arguments) {
  if (arguments.positional.empty()) return std::nullopt;
  Value value = std::move(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  return value;
}

std::string name_of(const Value& value) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
  if (!value.text()) fail("the name of a filter or test must be a string, not '{}'", value.type_name());
  return *value.text();
}

Value map_attribute(Run& run, const Value& input, Arguments arguments) {
  Value path, otherwise{None{}};
  for (auto& [name, value] : arguments.named) {
    if (name != "attribute" && name != "default") fail("Unexpected keyword argument '{}'", name);
    (name == "attribute" ? path : otherwise) = std::move(value);
  }
  std::vector<Value> mapped;
  for (const Value& item : iterate(run, input)) {
    mapped.push_back(follow_path(run, item, path, otherwise));
  }
  return run.generator(std::move(mapped));
}

Value map(Run& run, const Value& input, Arguments arguments) {
  if (!input.truthy()) return run.generator({});
  const bool by_attribute = std::any_of(arguments.named.begin(), arguments.named.end(),
                                        [](const auto& argument) { return argument.first == "attribute"; });
  if (arguments.positional.empty() && by_attribute) return map_attribute(run, input, std::move(arguments));
  const auto filter = take_first(arguments);
  if (!filter) fail("map requires a filter argument");
  const std::string name = name_of(*filter);
  std::vector<Value> mapped;
  for (const Value& item : iterate(run, input)) {
    run.step();
    mapped.push_back(apply_filter(run, name, item, arguments));
  }
  return run.generator(std::move(mapped));
}

template <bool kKeeps, bool kByAttribute>
Value select(Run& run, const Value& input, Arguments arguments) {
  if (!input.truthy()) return run.generator({});
  Value path{None{}};
  if (kByAttribute) {
    auto attribute = take_first(arguments);
    if (!attribute) fail("Missing parameter for attribute name");
    path = *std::move(attribute);
  }
  const auto test = take_first(arguments);
  const std::string name = test ? name_of(*test) : "";
  std::vector<Value> kept;
  for (const Value& item : iterate(run, input)) {
    run.step();
    const Value subject = follow_path(run, item, path);
    const bool holds = test ? apply_test(run, name, subject, arguments).truthy() : subject.truthy();
    if (holds == kKeeps) kept.push_back(item);
  }
  return run.generator(std::move(kept));
}

}  // namespace

NativeFunction find_select_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, NativeFunction> kFilters = {
      {"map", map},
      {"reject", select<false, false>},
      {"rejectattr", select<false, true>},
      {"select", select<true, false>},
      {"selectattr", select<true, true>},
  };
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

}  // namespace mneme::jinja
