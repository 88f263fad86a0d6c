#pragma once

#include <string_view>

#include "mneme/text/template_object.h"
#include "mneme/text/template_value.h"

namespace mneme::jinja {

/// The method `name` that Python's class of `value` has, or null.
NativeFunction find_method(const Value& value, std::string_view name);
NativeFunction find_string_method(std::string_view name);
NativeFunction find_sequence_method(const Sequence& sequence, std::string_view name);
NativeFunction find_dict_method(std::string_view name);

/// Whether it would change a list or dict: the sandbox of chat templates lets none of these through.
bool is_mutating_method(const Value& value, std::string_view name);

}  // namespace mneme::jinja
