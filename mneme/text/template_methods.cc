#include "mneme/text/template_methods.h"

#include <algorithm>
#include <array>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"

namespace mneme::jinja {
namespace {

Value list_count(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("count", std::move(arguments), {""}, 1);
  const auto& items = self.sequence()->items;
  const Value wanted = given.value(0);
  return static_cast<std::int64_t>(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(run, item, wanted); }));
}

Value list_index(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("index", std::move(arguments), {"", "start", "stop"}, 1);
  const auto& items = self.sequence()->items;
  const auto n = static_cast<std::int64_t>(items.size());
  const auto bound = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t given_bound = given.integer(i, otherwise);
    return std::clamp<std::int64_t>(given_bound < 0 ? given_bound + n : given_bound, 0, n);
  };
  for (std::int64_t i = bound(1, 0); i < bound(2, n); ++i) {
    if (equal(run, items[static_cast<std::size_t>(i)], given.value(0))) return i;
  }
  fail("the value is not in the list");
}

Value list_copy(Run&, const Value& self, Arguments arguments) {
  const Parameters none("copy", std::move(arguments), {});
  return self;  // nothing can change it, so it is its own copy
}

template <Sequence::Kind kKind>
Value dict_view(Run& run, const Value& self, Arguments arguments) {
  const Parameters none("dict method", std::move(arguments), {});
  std::vector<Value> items;
  for (const auto& [canonical, key, value] : self.dict()->entries()) {
    if (kKind == Sequence::Kind::kItems) {
      items.push_back(run.list({key, value}, Sequence::Kind::kTuple));
    } else {
      items.push_back(kKind == Sequence::Kind::kKeys ? key : value);
    }
  }
  return run.list(std::move(items), kKind);
}

Value dict_get(Run& run, const Value& self, Arguments arguments) {
  const Parameters given("get", std::move(arguments), {"", " "}, 1);
  const Value* found = self.dict()->find(*canonical_key(run, given.value(0)));
  return found ? *found : given.value(1);
}

Value dict_copy(Run&, const Value& self, Arguments arguments) {
  const Parameters none("copy", std::move(arguments), {});
  return self;
}

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

NativeFunction find_sequence_method(const Sequence& sequence, std::string_view name) {
  if (sequence.kind > Sequence::Kind::kRange) return nullptr;
  if (name == "count") return list_count;
  if (name == "index") return list_index;
  return name == "copy" && sequence.kind == Sequence::Kind::kList ? list_copy : nullptr;
}

NativeFunction find_dict_method(std::string_view name) {
  if (name == "get") return dict_get;
  if (name == "items") return dict_view<Sequence::Kind::kItems>;
  if (name == "keys") return dict_view<Sequence::Kind::kKeys>;
  if (name == "values") return dict_view<Sequence::Kind::kValues>;
  return name == "copy" ? dict_copy : nullptr;
}

NativeFunction find_method(const Value& value, std::string_view name) {
  if (value.text()) return find_string_method(name);
  if (value.sequence()) return find_sequence_method(*value.sequence(), name);
  return value.dict() ? find_dict_method(name) : nullptr;
}

bool is_mutating_method(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kList = {"append", "clear",  "extend",  "insert",
                                                            "pop",    "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is_sequence(Sequence::Kind::kList)) return is_one_of(name, kList);
  return value.dict() && is_one_of(name, kDict);
}

}  // namespace mneme::jinja
