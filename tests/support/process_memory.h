#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace mneme::testing {

/// Private memory of this process that is in use.
inline double resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return 1024 * std::stod(line.substr(8));
  }
  ADD_FAILURE() << "the system does not tell";
  return 0;
}

}  // namespace mneme::testing
