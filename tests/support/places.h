#pragma once

#include <string>

namespace mneme::testing {

/// The path of a fixture: `name` is relative to tests/golden/.
std::string test_data(const std::string& name);

/// The path of a program that the build made: `name` is relative to the build folder.
std::string built(const std::string& name);

}  // namespace mneme::testing
