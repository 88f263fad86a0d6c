#pragma once

#include <string_view>

#include "mneme/text/template_ast.h"

namespace mneme::jinja {

/// Parses a whole template. Throws Fault(kCorruptData) with the line of a syntax error or of nesting deeper than
/// 200 levels, Fault(kUnsupported) for tags that reach for other templates (include, import, extends).
Body parse_template(std::string_view source);

}  // namespace mneme::jinja
