#include "mneme/tasks/bench.h"
#include "mneme/tasks/chat.h"
#include "mneme/tasks/generate.h"
#include "mneme/tasks/inspect.h"
#include "mneme/tasks/nll.h"

const mneme::tasks::Tasks& mneme_tasks() {
  using namespace mneme;
  static constexpr tasks::Tasks kTasks = {tasks::generate, tasks::nll,       tasks::bench,
                                          tasks::inspect,  tasks::open_chat, set_warning_handler};
  return kTasks;
}
