#pragma once

#include <string>
#include <string_view>

#include "mneme/text/template_object.h"
#include "mneme/text/template_run.h"

namespace mneme::jinja {

/// input | name(arguments). Throws Fault for a filter that Jinja does not have (kInvalidArgument) or that this
/// interpreter leaves out (kUnsupported: random, urlize, wordwrap, xmlattr).
Value apply_filter(Run& run, std::string_view name, const Value& input, Arguments arguments);
bool is_filter(std::string_view name);

/// Filters by kind; null where the kind has none of this name. A filter's receiver is its input.
NativeFunction find_text_filter(std::string_view name);
NativeFunction find_number_filter(std::string_view name);
NativeFunction find_list_filter(std::string_view name);
NativeFunction find_select_filter(std::string_view name);

/// What the `attribute` of a filter means: "a.0.b" walks into the item, None is the item itself. Unless it is None,
/// `otherwise` takes the place of whatever is undefined on the way.
Value follow_path(Run& run, Value item, const Value& path, const Value& otherwise = Value(None{}));
/// Strings in lower case, everything else as it is: how filters compare unless case_sensitive.
Value ignore_case(Run& run, const Value& value);

}  // namespace mneme::jinja
