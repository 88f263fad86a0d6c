#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mneme/base/error.h"

namespace mneme {

/// Expects run() to throw an Error of this kind whose sentence holds `part`.
template <class Run>
void expect_error(ErrorKind kind, const std::string& part, Run&& run) {
  try {
    run();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks: " << part;
  }
}

}  // namespace mneme
