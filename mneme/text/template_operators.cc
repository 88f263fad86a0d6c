#include "mneme/text/template_operators.h"

#include <algorithm>
#include <cmath>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_format.h"
#include "mneme/text/template_printf.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

void require_defined(const Value& left, const Value& right) {
  if (left.is_undefined()) fail("{}", left.undefined_message());
  if (right.is_undefined()) fail("{}", right.undefined_message());
}

[[noreturn]] void fail_operands(Arithmetic op, const Value& left, const Value& right) {
  fail("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<std::size_t>(op)], left.type_name(),
       right.type_name());
}

[[noreturn]] void fail_overflow() { fail("integer overflow: integers of templates have 64 bits"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (a == INT64_MIN && b == -1) fail_overflow();
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  std::int64_t result = 1;
  for (bool first = true; exponent > 0; exponent >>= 1, first = false) {
    if (!first && __builtin_mul_overflow(base, base, &base)) fail_overflow();
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return result;
}

Value integer_arithmetic(Arithmetic op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Arithmetic::kAdd: overflows = __builtin_add_overflow(a, b, &result); break;
    case Arithmetic::kSubtract: overflows = __builtin_sub_overflow(a, b, &result); break;
    case Arithmetic::kMultiply: overflows = __builtin_mul_overflow(a, b, &result); break;
    case Arithmetic::kDivide:
      if (b == 0) fail("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case Arithmetic::kFloorDivide: return floor_divide(a, b);
    case Arithmetic::kModulo:
      if (b == 0) fail("integer division or modulo by zero");
      if (b == -1) return 0;
      result = a % b;
      return result != 0 && (result < 0) != (b < 0) ? result + b : result;
    case Arithmetic::kPower: return integer_power(a, b);
  }
  if (overflows) fail_overflow();
  return result;
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value float_arithmetic(Arithmetic op, double a, double b) {
  switch (op) {
    case Arithmetic::kAdd: return a + b;
    case Arithmetic::kSubtract: return a - b;
    case Arithmetic::kMultiply: return a * b;
    case Arithmetic::kDivide:
      if (b == 0) fail("float division by zero");
      return a / b;
    case Arithmetic::kFloorDivide:
      if (b == 0) fail("float floor division by zero");
      return std::floor((a - float_modulo(a, b)) / b + 0.5);
    case Arithmetic::kModulo:
      if (b == 0) fail("float modulo");
      return float_modulo(a, b);
    case Arithmetic::kPower: break;
  }
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("templates have no complex numbers");
  if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) fail("the result of ** is too large");
  return result;
}

Value add(Run& run, const Value& left, const Value& right) {
  if (left.text() && right.text()) return Value(TextBuilder(run).append(*left.text()).append(*right.text()).take());
  const Sequence *a = left.sequence(), *b = right.sequence();
  const bool joins =
      a && b && a->kind == b->kind && (a->kind == Sequence::Kind::kList || a->kind == Sequence::Kind::kTuple);
  if (!joins) {
    if (left.text()) fail("can only concatenate str (not \"{}\") to str", right.type_name());
    fail_operands(Arithmetic::kAdd, left, right);
  }
  std::vector<Value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return run.list(std::move(items), a->kind);
}

Value repeat(Run& run, const Value& left, const Value& right) {
  const Value& what = left.integer() ? right : left;
  const auto times = left.integer() ? left.integer() : right.integer();
  if (times && what.text()) return Value(TextBuilder(run).repeat(*what.text(), *times).take());
  const Sequence* items = what.sequence();
  if (!times || !(what.is_sequence(Sequence::Kind::kList) || what.is_sequence(Sequence::Kind::kTuple))) {
    fail_operands(Arithmetic::kMultiply, left, right);
  }
  std::vector<Value> result;
  if (!items->items.empty()) run.build_items(*times, items->items.size());
  for (std::int64_t i = 0; i < *times && !items->items.empty(); ++i) {
    result.insert(result.end(), items->items.begin(), items->items.end());
  }
  return Value::sequence(items->kind, std::move(result));
}

bool equal_items(Run& run, const std::vector<Value>& left, const std::vector<Value>& right) {
  return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(),
                                                   [&](const Value& a, const Value& b) { return equal(run, a, b); });
}

bool equal_dicts(Run& run, const Dict& left, const Dict& right) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = right.find(*entry.canonical);
    return other && equal(run, entry.value, *other);
  });
}

[[noreturn]] void fail_order(const Value& left, const Value& right) {
  require_defined(left, right);
  fail("'<' not supported between instances of '{}' and '{}'", left.type_name(), right.type_name());
}

// The order of strings in Python is that of code points, which UTF-8 bytes keep.
bool less_or_equal(Run& run, const Value& left, const Value& right) {
  const bool whole = left.integer() && right.integer();
  if (whole) return *left.integer() <= *right.integer();
  if (left.number() && right.number()) return *left.number() <= *right.number();  // false for NaN, unlike !(b < a)
  return !less(run, right, left);
}

}  // namespace

Value arithmetic(Run& run, Arithmetic op, const Value& left, const Value& right) {
  if (op == Arithmetic::kModulo && left.text()) return Value(percent_format(run, *left.text(), right));
  require_defined(left, right);
  if (left.integer() && right.integer()) return integer_arithmetic(op, *left.integer(), *right.integer());
  if (left.number() && right.number()) return float_arithmetic(op, *left.number(), *right.number());
  if (op == Arithmetic::kAdd) return add(run, left, right);
  if (op == Arithmetic::kMultiply) return repeat(run, left, right);
  fail_operands(op, left, right);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
  if (value.is_float()) return -*value.number();
  const auto integer = value.integer();
  if (!integer) fail("bad operand type for unary -: '{}'", value.type_name());
  if (*integer == INT64_MIN) fail_overflow();
  return -*integer;
}

Value plus(const Value& value) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
  if (value.is_float()) return value;
  if (!value.integer()) fail("bad operand type for unary +: '{}'", value.type_name());
  return *value.integer();
}

bool compare(Run& run, Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual: return equal(run, left, right);
    case Comparison::kNotEqual: return !equal(run, left, right);
    case Comparison::kLess: return less(run, left, right);
    case Comparison::kLessEqual: return less_or_equal(run, left, right);
    case Comparison::kGreater: return less(run, right, left);
    case Comparison::kGreaterEqual: return less_or_equal(run, right, left);
    case Comparison::kIn: return contains(run, right, left);
    case Comparison::kNotIn: return !contains(run, right, left);
  }
  return false;
}

bool equal(Run& run, const Value& left, const Value& right) {
  run.step();
  if (left.integer() && right.integer()) return *left.integer() == *right.integer();
  if (left.number() && right.number()) return *left.number() == *right.number();
  if (left.text() && right.text()) {
    run.scan(left.text()->size());
    return *left.text() == *right.text();
  }
  if (left.is_none() || left.is_undefined()) return left.storage().index() == right.storage().index();
  if (left.sequence() && right.sequence()) {
    return left.sequence()->kind == right.sequence()->kind &&
           equal_items(run, left.sequence()->items, right.sequence()->items);
  }
  if (left.dict() && right.dict()) return equal_dicts(run, *left.dict(), *right.dict());
  if (left.object() && right.object()) return left.object() == right.object();
  return left.iterator() && left.iterator() == right.iterator();
}

bool less(Run& run, const Value& left, const Value& right) {
  run.step();
  if (left.integer() && right.integer()) return *left.integer() < *right.integer();
  if (left.number() && right.number()) return *left.number() < *right.number();
  if (left.text() && right.text()) {
    run.scan(left.text()->size());
    return *left.text() < *right.text();
  }
  const Sequence *a = left.sequence(), *b = right.sequence();
  const bool ordered =
      a && b && a->kind == b->kind && (a->kind == Sequence::Kind::kList || a->kind == Sequence::Kind::kTuple);
  if (!ordered) fail_order(left, right);
  for (std::size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i) {
    if (!equal(run, a->items[i], b->items[i])) return less(run, a->items[i], b->items[i]);
  }
  return a->items.size() < b->items.size();
}

bool contains(Run& run, const Value& container, const Value& value) {
  if (container.text()) {
    if (value.is_undefined()) fail("{}", value.undefined_message());
    if (!value.text()) fail("'in <string>' requires string as left operand, not {}", value.type_name());
    run.scan(container.text()->size());
    return find_text(*container.text(), *value.text()) != std::string_view::npos;
  }
  if (container.dict()) return container.dict()->find(*canonical_key(run, value)) != nullptr;
  if (Iterator* iterator = container.iterator()) {
    while (iterator->next < iterator->items.size()) {
      if (equal(run, iterator->items[iterator->next++], value)) return true;
    }
    return false;
  }
  if (container.is_undefined()) return false;
  if (!container.sequence()) fail("argument of type '{}' is not iterable", container.type_name());
  const auto& items = container.sequence()->items;
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(run, item, value); });
}

Value call(Run& run, const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) fail("{}", callee.undefined_message());
  if (!callee.object()) fail("'{}' object is not callable", callee.type_name());
  return callee.object()->call(run, std::move(arguments));
}

}  // namespace mneme::jinja
