#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mneme/base/error.h"

namespace mneme::testing {

/// Runs `action`, which must throw Error(kind), and gives its message. Anything else fails the test, an exception of
/// another type by ending it.
template <class Action>
std::string thrown(ErrorKind kind, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace mneme::testing
