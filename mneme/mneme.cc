#include "mneme/mneme.h"

namespace mneme {

std::string_view version() noexcept { return MNEME_VERSION; }

}  // namespace mneme
