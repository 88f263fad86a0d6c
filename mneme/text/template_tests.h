#pragma once

#include <string_view>

#include "mneme/text/template_object.h"
#include "mneme/text/template_run.h"

namespace mneme::jinja {

/// input is name(arguments). Throws Fault for a test that Jinja does not have.
Value apply_test(Run& run, std::string_view name, const Value& input, Arguments arguments);
bool is_test(std::string_view name);

}  // namespace mneme::jinja
