#pragma once

#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// See Tasks::generate.
Json generate(const GenerateRequest& request, const GenerateEvents& events);

}  // namespace mneme::tasks
