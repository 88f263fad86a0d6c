#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mneme/text/template_run.h"
#include "mneme/text/template_value.h"

/// Python's operators on values. All throw Fault where Python raises, an undefined operand included.
namespace mneme::jinja {

enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Value arithmetic(Run& run, Arithmetic op, const Value& left, const Value& right);
Value negate(const Value& value);
/// +value: an int or float as it is.
Value plus(const Value& value);

bool compare(Run& run, Comparison op, const Value& left, const Value& right);
bool equal(Run& run, const Value& left, const Value& right);
bool less(Run& run, const Value& left, const Value& right);
/// `value in container`. Walks an iterator as far as the value.
bool contains(Run& run, const Value& container, const Value& value);

/// What keys are compared by: the string itself, and for numbers, None and tuples a text that no string key has.
/// Throws Fault for what Python cannot hash.
Text canonical_key(Run& run, const Value& key);

/// The items that a `for` would walk, an iterator's taken out of it.
std::vector<Value> iterate(Run& run, const Value& value);
/// len(value)
std::int64_t length(const Value& value);

/// value.name and value[index], as Jinja's sandbox: undefined where there is none.
Value get_attribute(Run& run, const Value& value, const std::string& name);
Value get_item(Run& run, const Value& value, const Value& index);

struct SliceBounds {
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
};
Value slice(Run& run, const Value& value, const SliceBounds& bounds);

/// Calls what is callable; throws Fault for the rest.
Value call(Run& run, const Value& callee, Arguments arguments);

}  // namespace mneme::jinja
