#pragma once

#include "mneme/base/json.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

namespace mneme::cli {

using testing::Arguments;
using testing::Finished;
using testing::Process;
using testing::ProcessOptions;
using testing::TempFolder;
using testing::TinyModel;

/// The command line of the built program.
inline Arguments program(const Arguments& arguments) {
  Arguments all = {testing::built("mneme")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

inline Finished run(const Arguments& arguments, const ProcessOptions& options = {}) {
  return Process(program(arguments), options).finish();
}

/// Runs a command that must succeed with JSON alone on stdout.
inline Json run_json(Arguments arguments, const ProcessOptions& options = {}) {
  arguments.push_back("--json");
  const Finished finished = run(arguments, options);
  EXPECT_EQ(finished.code, 0) << finished.err;
  return Json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
}

/// Runs a command that must refuse its input: exit 2, nothing on stdout, and on stderr one line "mneme: ..." whose text
/// is returned.
inline std::string refused(const Arguments& arguments, const ProcessOptions& options = {}) {
  const Finished finished = run(arguments, options);
  EXPECT_EQ(finished.code, 2) << "signal " << finished.signal << ": " << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_TRUE(finished.err.starts_with("mneme: ")) << finished.err;
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  return finished.err;
}

}  // namespace mneme::cli
