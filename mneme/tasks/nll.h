#pragma once

#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// See Tasks::nll.
Json nll(const NllRequest& request);

}  // namespace mneme::tasks
