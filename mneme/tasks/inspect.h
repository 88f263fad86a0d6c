#pragma once

#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// See Tasks::inspect.
Json inspect(const InspectRequest& request);

}  // namespace mneme::tasks
