#pragma once

#include "mneme/text/template_run.h"

namespace mneme::jinja {

/// Puts what every template can call into the outermost scope: range, dict, namespace, joiner, cycler,
/// raise_exception and strftime_now; lipsum is there and refuses.
void define_globals(Run& run);

}  // namespace mneme::jinja
