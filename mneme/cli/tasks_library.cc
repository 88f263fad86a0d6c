#include "mneme/cli/tasks_library.h"

#include <dlfcn.h>

#include "mneme/base/error.h"

namespace mneme::cli {
namespace {

constexpr const char* kLibrary = "libmneme-tasks.so";

const tasks::Tasks& open() {
  void* library = dlopen(kLibrary, RTLD_NOW);
  const auto entry = library ? reinterpret_cast<decltype(&mneme_tasks)>(dlsym(library, "mneme_tasks")) : nullptr;
  check(entry != nullptr, ErrorKind::kFailedPrecondition, "{} cannot be loaded, build or install mneme again: {}",
        kLibrary, dlerror());
  const tasks::Tasks& found = entry();
  found.set_warning_handler(warn);
  return found;
}

}  // namespace

const tasks::Tasks& load_tasks() {
  static const tasks::Tasks& loaded = open();
  return loaded;
}

}  // namespace mneme::cli
