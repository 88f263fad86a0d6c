#pragma once

#include "mneme/base/json.h"
#include "mneme/text/template_value.h"

namespace mneme::jinja {

/// Messages, tools and other JSON as values. Integers past 64 bits with sign become floats. Throws Fault where the JSON
/// nests deeper than kMaxNesting or holds a string that is not UTF-8.
Value from_json(const Json& json);

}  // namespace mneme::jinja
