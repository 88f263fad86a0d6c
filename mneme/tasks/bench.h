#pragma once

#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// Tasks::bench.
Json bench(const BenchRequest& request, const BenchEvents& events);

}  // namespace mneme::tasks
