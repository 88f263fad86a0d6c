// Filters that take lists and dicts.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_filters.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

// Items in the order of their keys, equal ones as they were.
std::vector<Value> sorted(Run& run, const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? less(run, keys[b], keys[a]) : less(run, keys[a], keys[b]);
  });
  std::vector<Value> result;
  result.reserve(items.size());
  for (const std::size_t i : order) result.push_back(items[i]);
  return result;
}

Value default_filter(Run&, const Value& input, Arguments arguments) {
  const Parameters given("default", std::move(arguments), {"default_value", "boolean"});
  const bool replaces = input.is_undefined() || (given.truthy(1) && !input.truthy());
  return replaces ? given.value(0, Value("")) : input;
}

Value length_filter(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("length", std::move(arguments), {});
  if (input.text()) run.scan(input.text()->size());
  return length(input);
}

Value first(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("first", std::move(arguments), {});
  if (Iterator* iterator = input.iterator(); iterator && iterator->next < iterator->items.size()) {
    return iterator->items[iterator->next++];
  }
  const std::vector<Value> items = iterate(run, input);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("last", std::move(arguments), {});
  if (input.iterator()) fail("'{}' object is not reversible", input.type_name());
  const std::vector<Value> items = iterate(run, input);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value list(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("list", std::move(arguments), {});
  return run.list(iterate(run, input));
}

Value reverse(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("reverse", std::move(arguments), {});
  if (input.text()) {
    std::vector<char32_t> points = code_points(*input.text());
    std::reverse(points.begin(), points.end());
    return run.text(from_code_points(points));
  }
  const bool is_iterable = input.is_undefined() || input.sequence() || input.dict() || input.iterator();
  if (!is_iterable) fail("argument must be iterable");
  std::vector<Value> items = iterate(run, input);
  std::reverse(items.begin(), items.end());
  if (input.iterator()) return run.list(std::move(items));
  return run.generator(std::move(items), input.type_name() + "_reverseiterator");
}

Value items(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("items", std::move(arguments), {});
  if (!input.dict() && !input.is_undefined()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  if (input.dict()) {
    for (const auto& [canonical, key, value] : input.dict()->entries()) {
      pairs.push_back(run.list({key, value}, Sequence::Kind::kTuple));
    }
  }
  return run.generator(std::move(pairs));
}

Value dictsort(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("dictsort", std::move(arguments), {"case_sensitive", "by", "reverse"});
  const std::string by = given.text(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail("{}", input.undefined_message());
  if (!input.dict()) fail("'{}' object has no attribute 'items'", input.type_name());
  std::vector<Value> pairs, keys;
  for (const auto& [canonical, key, value] : input.dict()->entries()) {
    pairs.push_back(run.list({key, value}, Sequence::Kind::kTuple));
    const Value& part = by == "key" ? key : value;
    keys.push_back(given.truthy(0) ? part : ignore_case(run, part));
  }
  return run.list(sorted(run, pairs, keys, given.truthy(2)));
}

// The key of an item under a comma-separated list of attributes.
Value sort_key(Run& run, const Value& item, const Value& attribute, bool case_sensitive) {
  std::vector<Value> parts;
  const auto add = [&](const Value& path) {
    Value part = follow_path(run, item, path);
    parts.push_back(case_sensitive ? std::move(part) : ignore_case(run, part));
  };
  if (!attribute.text()) {
    add(attribute);
  } else {
    std::string_view rest = *attribute.text();
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
      comma = rest.find(',');
      add(Value(rest.substr(0, comma)));
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
  }
  return run.list(std::move(parts));
}

Value sort(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("sort", std::move(arguments), {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> all = iterate(run, input);
  std::vector<Value> keys;
  for (const Value& item : all) keys.push_back(sort_key(run, item, given.value(2), given.truthy(1)));
  return run.list(sorted(run, all, keys, given.truthy(0)));
}

Value unique(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("unique", std::move(arguments), {"case_sensitive", "attribute"});
  std::unordered_set<std::string> seen;
  std::vector<Value> kept;
  for (const Value& item : iterate(run, input)) {
    const Value key = follow_path(run, item, given.value(1));
    const Text text = canonical_key(run, given.truthy(0) ? key : ignore_case(run, key));
    run.build(text->size());
    if (seen.insert(*text).second) kept.push_back(item);
  }
  return run.generator(std::move(kept));
}

template <bool kLargest>
Value extreme(Run& run, const Value& input, Arguments arguments) {
  const Parameters given(kLargest ? "max" : "min", std::move(arguments), {"case_sensitive", "attribute"});
  const std::vector<Value> all = iterate(run, input);
  if (all.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    const Value key = follow_path(run, item, given.value(1));
    return given.truthy(0) ? key : ignore_case(run, key);
  };
  std::size_t best = 0;
  Value best_key = key_of(all[0]);
  for (std::size_t i = 1; i < all.size(); ++i) {
    Value key = key_of(all[i]);
    if (kLargest ? less(run, best_key, key) : less(run, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return all[best];
}

Value sum(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("sum", std::move(arguments), {"attribute", "start"});
  Value total = given.value(1, Value(0));
  if (total.text()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : iterate(run, input)) {
    total = arithmetic(run, Arithmetic::kAdd, total, follow_path(run, item, given.value(0)));
  }
  return total;
}

Value batch(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("batch", std::move(arguments), {"linecount", "fill_with"}, 1);
  const std::int64_t size = given.integer(0, 0);
  std::vector<Value> rows, row;
  for (const Value& item : iterate(run, input)) {
    if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(run.list(std::exchange(row, {})));
    row.push_back(item);
  }
  const Value fill = given.value(1);
  if (!row.empty() && !fill.is_none() && static_cast<std::int64_t>(row.size()) < size) {
    run.build_items(size);
    row.resize(static_cast<std::size_t>(size), fill);
  }
  if (!row.empty()) rows.push_back(run.list(std::move(row)));
  return run.generator(std::move(rows));
}

Value slice_filter(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("slice", std::move(arguments), {"slices", "fill_with"}, 1);
  const std::vector<Value> all = iterate(run, input);
  const std::int64_t n_slices = given.integer(0, 0);
  if (n_slices == 0) fail("integer division or modulo by zero");
  run.build_items(n_slices);
  const auto n = static_cast<std::int64_t>(all.size());
  std::vector<Value> columns;
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < n_slices; ++i) {
    const bool extra = i < n % n_slices;
    const std::int64_t stop = start + n / n_slices + (extra ? 1 : 0);
    std::vector<Value> column(all.begin() + start, all.begin() + stop);
    if (!extra && !given.value(1).is_none()) column.push_back(given.value(1));
    columns.push_back(run.list(std::move(column)));
    start = stop;
  }
  return run.generator(std::move(columns));
}

Value groupby(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("groupby", std::move(arguments), {"attribute", "default", "case_sensitive"}, 1);
  const std::vector<Value> all = iterate(run, input);
  std::vector<Value> keyed, keys;
  for (const Value& item : all) {
    Value key = follow_path(run, item, given.value(0), given.value(1));
    keyed.push_back(run.list({key, item}, Sequence::Kind::kTuple));
    keys.push_back(given.truthy(2) ? key : ignore_case(run, key));
  }
  // Sorted together with their keys, so that equal ones stand side by side.
  std::vector<Value> both;
  for (std::size_t i = 0; i < keyed.size(); ++i) both.push_back(run.list({keys[i], keyed[i]}));
  std::vector<Value> groups;
  const std::vector<Value> ordered = sorted(run, both, keys, false);
  for (std::size_t i = 0; i < ordered.size();) {
    const Value& key = ordered[i].sequence()->items[0];
    const Value shown = ordered[i].sequence()->items[1].sequence()->items[0];
    std::vector<Value> members;
    for (; i < ordered.size() && equal(run, ordered[i].sequence()->items[0], key); ++i) {
      members.push_back(ordered[i].sequence()->items[1].sequence()->items[1]);
    }
    groups.push_back(run.list({shown, run.list(std::move(members))}, Sequence::Kind::kTuple));
  }
  return run.list(std::move(groups));
}

Value attr(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("attr", std::move(arguments), {"name"}, 1);
  // Only what Python finds as an attribute; the keys of a dict are none.
  if (input.dict() && input.dict()->find(given.text(0))) {
    const Value found = get_attribute(run, run.dict(Dict()), given.text(0));
    return found.object() ? get_attribute(run, input, given.text(0)) : found;
  }
  return get_attribute(run, input, given.text(0));
}

}  // namespace

NativeFunction find_list_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, NativeFunction> kFilters = {
      {"attr", attr},
      {"batch", batch},
      {"count", length_filter},
      {"d", default_filter},
      {"default", default_filter},
      {"dictsort", dictsort},
      {"first", first},
      {"groupby", groupby},
      {"items", items},
      {"last", last},
      {"length", length_filter},
      {"list", list},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reverse", reverse},
      {"slice", slice_filter},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

}  // namespace mneme::jinja
