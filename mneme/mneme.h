#pragma once

#include <string_view>

namespace mneme {

/// The version of the library, "major.minor.patch".
std::string_view version() noexcept;

}  // namespace mneme
