#pragma once

#include <string>

#include "mneme/text/template_run.h"
#include "mneme/text/template_value.h"

/// Values as text, exactly as Python prints them.
namespace mneme::jinja {

/// str(value): what {{ value }} writes.
std::string to_text(Run& run, const Value& value);
/// repr(value): how it shows inside of a list.
std::string repr(Run& run, const Value& value);
/// repr of a float: the shortest decimal that reads back, with ".0" or an exponent where Python has them.
std::string repr_float(double value);

struct JsonStyle {
  bool ascii_only = false;
  std::optional<std::string> indent;  ///< for each level; without it everything stands in one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// json.dumps(value). Throws Fault for what has no JSON form.
std::string to_json(Run& run, const Value& value, const JsonStyle& style);

}  // namespace mneme::jinja
