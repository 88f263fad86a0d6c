#pragma once

#include <memory>

#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// Loads a model for conversations. Throws Error as generate() does, and Error(kInvalidArgument) for a model without a
/// chat template.
std::unique_ptr<Chat> open_chat(const ChatRequest& request);

}  // namespace mneme::tasks
