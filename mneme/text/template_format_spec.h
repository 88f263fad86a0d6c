#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mneme/text/template_run.h"
#include "mneme/text/template_value.h"

namespace mneme::jinja {

/// Python's format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  ///< '<', '>', '^', '=' or 0 for the type's own
  char sign = '-';
  bool alternate = false;  ///< '#': prefixes 0x, 0o, 0b
  std::int64_t width = 0;
  char grouping = 0;  ///< ',' or '_'
  std::optional<std::int64_t> precision;
  char type = 0;
  bool is_empty = true;
};

/// Throws Fault where the text is no format specification.
FormatSpec parse_format_spec(std::string_view text);

/// format(value, spec). Throws Fault where the type does not fit the value.
std::string format_value(Run& run, const Value& value, const FormatSpec& spec);

/// `text` in a field: ljust, rjust and center are this too. `align` is one of '<', '>' and '^'.
std::string padded(Run& run, std::string_view text, std::int64_t width, char align, std::string_view fill = " ");

/// str.format: `text` with its {fields} filled in.
std::string format_fields(Run& run, std::string_view text, const Arguments& arguments);

}  // namespace mneme::jinja
