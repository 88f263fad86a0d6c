// Filters that take numbers, or make them.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_filters.h"
#include "mneme/text/template_numbers.h"
#include "mneme/text/template_operators.h"
#include "mneme/text/template_parameters.h"

namespace mneme::jinja {
namespace {

Value truncated(double real) {
  if (std::isnan(real)) fail("cannot convert float NaN to integer");
  if (std::isinf(real)) fail("cannot convert float infinity to integer");
  if (std::abs(real) >= 9223372036854775808.0) fail("integer overflow: integers of templates have 64 bits");
  return static_cast<std::int64_t>(real);
}

Value to_integer(Run&, const Value& input, Arguments arguments) {
  const Parameters given("int", std::move(arguments), {"default", "base"});
  const Value otherwise = given.value(0, Value(0));
  if (input.is_undefined()) fail("{}", input.undefined_message());
  if (input.integer()) return *input.integer();
  if (input.is_float()) return std::isfinite(*input.number()) ? truncated(*input.number()) : otherwise;
  if (!input.text()) return otherwise;
  const std::int64_t base = given.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) return otherwise;
  if (const auto integer = parse_integer(*input.text(), static_cast<int>(base))) return *integer;
  const auto real = parse_float(*input.text());  // "42.23" gives 42
  return real && std::isfinite(*real) ? truncated(*real) : otherwise;
}

Value to_float(Run&, const Value& input, Arguments arguments) {
  const Parameters given("float", std::move(arguments), {"default"});
  if (input.is_undefined()) fail("{}", input.undefined_message());
  if (input.number()) return *input.number();
  const auto real = input.text() ? parse_float(*input.text()) : std::nullopt;
  return real ? Value(*real) : given.value(0, Value(0.0));
}

Value absolute(Run&, const Value& input, Arguments arguments) {
  const Parameters none("abs", std::move(arguments), {});
  if (input.is_undefined()) fail("{}", input.undefined_message());
  if (input.is_float()) return std::abs(*input.number());
  if (!input.integer()) fail("bad operand type for abs(): '{}'", input.type_name());
  return *input.integer() < 0 ? negate(Value(*input.integer())) : Value(*input.integer());
}

// Half to even, on the decimal value of the float, as Python's round.
double rounded(double value, std::int64_t precision) {
  if (!std::isfinite(value) || precision > 330) return value;
  if (precision < 0) {
    if (precision < -310) return std::copysign(0.0, value);
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

Value rounded_integer(Run& run, std::int64_t value, std::int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return 0;
  const Value unit = arithmetic(run, Arithmetic::kPower, Value(10), Value(-precision));
  const std::int64_t size = *unit.integer();
  const std::int64_t down = *arithmetic(run, Arithmetic::kFloorDivide, Value(value), unit).integer();
  const std::int64_t rest = *arithmetic(run, Arithmetic::kModulo, Value(value), unit).integer();
  const bool up = rest > size - rest || (rest == size - rest && down % 2 != 0);
  return arithmetic(run, Arithmetic::kMultiply, Value(down + (up ? 1 : 0)), unit);
}

Value round_filter(Run& run, const Value& input, Arguments arguments) {
  const Parameters given("round", std::move(arguments), {"precision", "method"});
  const std::int64_t precision = given.integer(0, 0);
  const std::string method = given.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (input.is_undefined()) fail("{}", input.undefined_message());
  if (!input.number()) fail("type {} doesn't define __round__ method", input.type_name());
  if (method == "common") {
    return input.integer() ? rounded_integer(run, *input.integer(), precision)
                           : Value(rounded(*input.number(), precision));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *input.number() * scale;
  if (!std::isfinite(scaled)) fail("cannot convert float infinity or NaN to integer");
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value filesizeformat(Run&, const Value& input, Arguments arguments) {
  const Parameters given("filesizeformat", std::move(arguments), {"binary"});
  const auto size = input.text() ? parse_float(*input.text()) : input.number();
  if (!size) fail("filesizeformat: a number is needed, not '{}'", input.type_name());
  const bool binary = given.truthy(0);
  const double base = binary ? 1024 : 1000;
  if (*size == 1) return Value("1 Byte");
  if (*size < base) return Value(fmt::format("{:.0f} Bytes", std::trunc(*size)));
  std::string_view prefixes = binary ? "KMGTPEZY" : "kMGTPEZY";
  double unit = base * base;
  while (*size >= unit && prefixes.size() > 1) {
    unit *= base;
    prefixes.remove_prefix(1);
  }
  return Value(fmt::format("{:.1f} {}{}B", base * *size / unit, prefixes[0], binary ? "i" : ""));
}

}  // namespace

NativeFunction find_number_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, NativeFunction> kFilters = {
      {"abs", absolute},       {"filesizeformat", filesizeformat}, {"float", to_float}, {"int", to_integer},
      {"round", round_filter},
  };
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

}  // namespace mneme::jinja
