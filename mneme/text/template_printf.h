#pragma once

#include <string>
#include <string_view>

#include "mneme/text/template_run.h"
#include "mneme/text/template_value.h"

namespace mneme::jinja {

/// `text % arguments`: a tuple gives several arguments, a dict those of %(name)s, anything else is the only one.
/// Throws Fault where their number or types do not fit.
std::string percent_format(Run& run, std::string_view text, const Value& arguments);

}  // namespace mneme::jinja
