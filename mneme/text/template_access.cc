// Reading what is inside of values: keys, attributes, items, slices, iteration.
#include <algorithm>
#include <cmath>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_methods.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr char kMark = '\0';  // starts every canonical key that is not simply the string itself

void append_canonical(Run& run, const Value& key, TextBuilder& out) {
  run.step();
  if (key.is_undefined()) {
    out.append("u");
  } else if (key.is_none()) {
    out.append("n");
  } else if (key.number()) {
    // 1, 1.0 and True are one key in Python.
    const double real = *key.number();
    const bool whole = key.integer() || (real == std::floor(real) && std::abs(real) < 9e18);
    const std::int64_t integer = key.integer() ? *key.integer() : whole ? static_cast<std::int64_t>(real) : 0;
    out.append(whole ? fmt::format("i{};", integer) : fmt::format("f{};", real));
  } else if (key.text()) {
    out.append(fmt::format("s{}:", key.text()->size())).append(*key.text());
  } else if (key.is_sequence(Sequence::Kind::kTuple)) {
    out.append("(");
    for (const Value& item : key.sequence()->items) append_canonical(run, item, out);
    out.append(")");
  } else if (key.object()) {
    out.append(fmt::format("o{};", static_cast<const void*>(key.object())));
  } else {
    fail("unhashable type: '{}'", key.type_name());
  }
}

Value method(const std::string& name, NativeFunction function, const Value& receiver) {
  return Value(std::make_shared<Function>(name, function, receiver));
}

Value unsafe(const Value& value, const std::string& name) {
  return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, value.type_name()));
}

// What Python finds by getattr: methods and the attributes of objects. Values made of Python's own classes have a
// few dozen attributes with two underscores, none of which the sandbox lets through.
std::optional<Value> own_attribute(Run& run, const Value& value, const std::string& name) {
  if (value.object()) return value.object()->attribute(run, name);
  if (name.starts_with("__") && name.ends_with("__")) return unsafe(value, name);
  if (is_mutating_method(value, name)) return unsafe(value, name);
  if (NativeFunction function = find_method(value, name)) return method(name, function, value);
  return std::nullopt;
}

Value missing_attribute(const Value& value, const std::string& name) {
  const std::string type = value.is_none() ? "None" : value.type_name() + " object";
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", type, name));
}

Value missing_item(Run& run, const Value& value, const Value& index) {
  if (index.text()) return missing_attribute(value, *index.text());
  const std::string type = value.is_none() ? "None" : value.type_name() + " object";
  return Value::undefined(fmt::format("{} has no element {}", type, repr(run, index)));
}

std::optional<Value> dict_item(Run& run, const Dict& dict, const Value& key) {
  if (key.sequence() && !key.is_sequence(Sequence::Kind::kTuple)) return std::nullopt;  // not hashable
  if (key.dict() || key.iterator()) return std::nullopt;
  const Value* found =
      key.text() && !key.text()->starts_with(kMark) ? dict.find(*key.text()) : dict.find(*canonical_key(run, key));
  return found ? std::optional<Value>(*found) : std::nullopt;
}

// A position counted from either end, where it is inside.
std::optional<std::size_t> resolved(std::int64_t index, std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  if (index < -n || index >= n) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + n : index);
}

std::optional<Value> text_item(Run& run, const std::string& text, std::int64_t index) {
  run.scan(text.size());
  const auto at = resolved(index, count_code_points(text));
  if (!at) return std::nullopt;
  const std::size_t start = byte_offset(text, *at);
  std::size_t end = start;
  next_code_point(text, end);
  return run.text(text.substr(start, end - start));
}

bool is_indexable(const Sequence& sequence) { return sequence.kind <= Sequence::Kind::kRange; }

std::optional<Value> item(Run& run, const Value& value, const Value& index) {
  if (value.dict()) return dict_item(run, *value.dict(), index);
  const auto position = index.integer();
  if (!position) return std::nullopt;
  if (value.text()) return text_item(run, *value.text(), *position);
  if (!value.sequence() || !is_indexable(*value.sequence())) return std::nullopt;
  const auto at = resolved(*position, value.sequence()->items.size());
  return at ? std::optional<Value>(value.sequence()->items[*at]) : std::nullopt;
}

struct Stride {
  std::int64_t start, stop, step;
};

// Python's rules for the bounds of a slice over n items.
Stride stride(const SliceBounds& bounds, std::int64_t n) {
  if (bounds.step == 0) fail("slice step cannot be zero");
  const bool back = bounds.step < 0;
  const std::int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
  const auto clamped = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp(*bound < 0 ? std::max(*bound, -n - 1) + n : *bound, low, high);
  };
  // A step past the whole length takes one item, whatever its size; this keeps the sums below small.
  const std::int64_t step = std::clamp(bounds.step, -n - 1, n + 1);
  return {clamped(bounds.start, back ? high : low), clamped(bounds.stop, back ? low : high), step};
}

template <class Take>
void walk(const Stride& stride, const Take& take) {
  for (std::int64_t i = stride.start; stride.step > 0 ? i < stride.stop : i > stride.stop; i += stride.step) {
    take(static_cast<std::size_t>(i));
  }
}

Value text_slice(Run& run, const std::string& text, const SliceBounds& bounds) {
  run.scan(text.size());
  const auto n = static_cast<std::int64_t>(count_code_points(text));
  const Stride range = stride(bounds, n);
  if (range.step == 1) {
    const std::size_t start = byte_offset(text, static_cast<std::size_t>(range.start));
    if (range.stop <= range.start) return run.text("");
    const auto length = static_cast<std::size_t>(range.stop - range.start);
    return run.text(text.substr(start, byte_offset(std::string_view(text).substr(start), length)));
  }
  const std::vector<char32_t> points = code_points(text);
  run.build(points.size() * sizeof(char32_t));
  std::string result;
  walk(range, [&](std::size_t i) { append_code_point(result, points[i]); });
  return run.text(std::move(result));
}

}  // namespace

Text canonical_key(Run& run, const Value& key) {
  if (key.text() && !key.text()->starts_with(kMark)) return key.shared_text();
  TextBuilder out(run);
  out.append(std::string_view(&kMark, 1));
  append_canonical(run, key, out);
  return std::make_shared<const std::string>(out.take());
}

Value get_attribute(Run& run, const Value& value, const std::string& name) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
  if (auto found = own_attribute(run, value, name)) return *std::move(found);
  if (value.dict()) {
    if (const Value* found = value.dict()->find(name)) return *found;
  }
  return missing_attribute(value, name);
}

Value get_item(Run& run, const Value& value, const Value& index) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
  if (auto found = item(run, value, index)) return *std::move(found);
  if (index.text()) {
    if (auto found = own_attribute(run, value, *index.text())) return *std::move(found);
  }
  return missing_item(run, value, index);
}

Value slice(Run& run, const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
  if (value.text()) return text_slice(run, *value.text(), bounds);
  if (value.dict()) fail("unhashable type: 'slice'");
  const Sequence* sequence = value.sequence();
  if (!sequence || !is_indexable(*sequence)) fail("'{}' object is not subscriptable", value.type_name());
  const Stride range = stride(bounds, static_cast<std::int64_t>(sequence->items.size()));
  std::vector<Value> items;
  walk(range, [&](std::size_t i) { items.push_back(sequence->items[i]); });
  if (sequence->kind != Sequence::Kind::kRange) return run.list(std::move(items), sequence->kind);
  const auto [first, last, step] = sequence->bounds;
  run.build(items.size() * sizeof(Value));
  return Value::sequence(Sequence::Kind::kRange, std::move(items),
                         {first + range.start * step, first + range.stop * step, step * range.step});
}

std::vector<Value> iterate(Run& run, const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (Iterator* iterator = value.iterator()) {
    items.assign(iterator->items.begin() + static_cast<std::ptrdiff_t>(iterator->next), iterator->items.end());
    iterator->next = iterator->items.size();
  } else if (value.sequence()) {
    items = value.sequence()->items;
  } else if (value.dict()) {
    for (const auto& entry : value.dict()->entries()) items.push_back(entry.key);
  } else if (const std::string* text = value.text()) {
    run.build(text->size() * sizeof(Value));
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t start = at;
      next_code_point(*text, at);
      items.emplace_back(text->substr(start, at - start));
    }
  } else {
    fail("'{}' object is not iterable", value.type_name());
  }
  run.build(items.size() * sizeof(Value));
  return items;
}

std::int64_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.text()) return static_cast<std::int64_t>(count_code_points(*value.text()));
  if (value.sequence()) return static_cast<std::int64_t>(value.sequence()->items.size());
  if (value.dict()) return static_cast<std::int64_t>(value.dict()->entries().size());
  if (value.object()) {
    if (const auto n = value.object()->length()) return static_cast<std::int64_t>(*n);
  }
  fail("object of type '{}' has no len()", value.type_name());
}

}  // namespace mneme::jinja
