#pragma once

#include <functional>
#include <string>

namespace mneme {

/// Receives one-sentence warnings. Called from whichever thread has something to say.
using WarningHandler = std::function<void(const std::string&)>;

/// Replaces the handler of the process (default: warnings are dropped, a library never prints). Thread safe.
void set_warning_handler(WarningHandler handler);

/// Hands `message` to the current handler.
void warn(const std::string& message);

}  // namespace mneme
