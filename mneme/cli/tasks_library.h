#pragma once

#include "mneme/tasks/tasks.h"

namespace mneme::cli {

/// The tasks that work on a model. Loads libmneme-tasks.so, and LibTorch with it (0.25 s), on first use; the library
/// lies where the program's RPATH says. Its warnings go to the handler of this program. Throws
/// Error(kFailedPrecondition) if the library cannot be loaded.
const tasks::Tasks& load_tasks();

}  // namespace mneme::cli
