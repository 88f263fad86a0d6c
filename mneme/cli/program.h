#pragma once

namespace mneme::cli {

/// The whole program: flags, command, messages. Gives the exit code (exit_code.h).
int run_program(int argc, const char* const* argv);

}  // namespace mneme::cli
