#include "mneme/text/template_tests.h"

#include <unordered_map>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_filters.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"
#include "mneme/text/template_strings.h"

namespace mneme::jinja {
namespace {

// A test of the value alone.
template <bool (*Holds)(const Value&)>
Value plain(Run&, const Value& input, Arguments arguments) {
  const Parameters none("test", std::move(arguments), {});
  return Holds(input);
}

template <Comparison kOp>
Value compared(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("test", std::move(arguments), {""}, 1);
  return compare(run, kOp, input, given.value(0));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.truthy(); }
bool is_false(const Value& value) { return value.is_bool() && !value.truthy(); }
bool is_integer(const Value& value) { return value.integer() && !value.is_bool(); }
bool is_float(const Value& value) { return value.is_float(); }
bool is_number(const Value& value) { return value.number().has_value(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_callable(const Value& value) { return value.is_undefined() || (value.object() && value.object()->callable()); }
bool is_escaped(const Value&) { return false; }

bool is_sequence(const Value& value) {
  const bool indexed = value.sequence() && value.sequence()->kind <= Sequence::Kind::kRange;
  return indexed || value.text() || value.dict() || value.is_undefined();
}

bool is_iterable(const Value& value) {
  const bool has_length = value.object() && value.object()->length();
  return value.sequence() || value.text() || value.dict() || value.iterator() || value.is_undefined() || has_length;
}

Value is_divisible(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("divisibleby", std::move(arguments), {"num"}, 1);
  return equal(run, arithmetic(run, Arithmetic::kModulo, input, given.value(0)), Value(0));
}

template <int kRest>
Value parity(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("test", std::move(arguments), {});
  return equal(run, arithmetic(run, Arithmetic::kModulo, input, Value(2)), Value(kRest));
}

template <bool (*Holds)(std::string_view)>
Value text_test(Run& run, const Value& input, Arguments arguments) {
  const Parameters none("test", std::move(arguments), {});
  const std::string text = to_text(run, input);
  run.scan(8 * text.size());
  return Holds(text);
}

template <bool (*Exists)(std::string_view)>
Value exists(Run&, const Value& input, Arguments arguments) {
  const Parameters none("test", std::move(arguments), {});
  return input.text() && Exists(*input.text());
}

// Python's `is`. Equal simple values count as the same one, which CPython has for small ones.
Value is_same(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("sameas", std::move(arguments), {"other"}, 1);
  const Value other = given.value(0);
  if (input.storage().index() != other.storage().index()) return false;
  if (input.sequence()) return input.sequence() == other.sequence();
  if (input.dict()) return input.dict() == other.dict();
  return equal(run, input, other);
}

const std::unordered_map<std::string_view, NativeFunction>& tests() {
  static const std::unordered_map<std::string_view, NativeFunction> kTests = {
      {"!=", compared<Comparison::kNotEqual>},
      {"<", compared<Comparison::kLess>},
      {"<=", compared<Comparison::kLessEqual>},
      {"==", compared<Comparison::kEqual>},
      {">", compared<Comparison::kGreater>},
      {">=", compared<Comparison::kGreaterEqual>},
      {"boolean", plain<is_boolean>},
      {"callable", plain<is_callable>},
      {"defined", plain<is_defined>},
      {"divisibleby", is_divisible},
      {"eq", compared<Comparison::kEqual>},
      {"equalto", compared<Comparison::kEqual>},
      {"escaped", plain<is_escaped>},
      {"even", parity<0>},
      {"false", plain<is_false>},
      {"filter", exists<is_filter>},
      {"float", plain<is_float>},
      {"ge", compared<Comparison::kGreaterEqual>},
      {"greaterthan", compared<Comparison::kGreater>},
      {"gt", compared<Comparison::kGreater>},
      {"in", compared<Comparison::kIn>},
      {"integer", plain<is_integer>},
      {"iterable", plain<is_iterable>},
      {"le", compared<Comparison::kLessEqual>},
      {"lessthan", compared<Comparison::kLess>},
      {"lower", text_test<all_lower>},
      {"lt", compared<Comparison::kLess>},
      {"mapping", plain<is_mapping>},
      {"ne", compared<Comparison::kNotEqual>},
      {"none", plain<is_none>},
      {"number", plain<is_number>},
      {"odd", parity<1>},
      {"sameas", is_same},
      {"sequence", plain<is_sequence>},
      {"string", plain<is_string>},
      {"test", exists<is_test>},
      {"true", plain<is_true>},
      {"undefined", plain<is_undefined>},
      {"upper", text_test<all_upper>},
  };
  return kTests;
}

}  // namespace

Value apply_test(Run& run, std::string_view name, const Value& input, Arguments arguments) {
  const auto it = tests().find(name);
  if (it == tests().end()) fail("No test named '{}'", name);
  return it->second(run, input, std::move(arguments));
}

bool is_test(std::string_view name) { return tests().contains(name); }

}  // namespace mneme::jinja
