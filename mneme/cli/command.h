#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace mneme::cli {

class Console;

/// One command of the program: its flags are declared in `app`; `run` is called when they are parsed, and gives the
/// exit code. Errors are exceptions.
struct Command {
  CLI::App* app;
  std::function<int(Console&)> run;
};

// One file each.
Command add_generate(CLI::App& program);
Command add_chat(CLI::App& program);
Command add_nll(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_tokenize(CLI::App& program);
Command add_render(CLI::App& program);
Command add_inspect(CLI::App& program);

}  // namespace mneme::cli
