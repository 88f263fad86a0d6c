#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "mneme/tasks/tasks.h"

namespace mneme::cli {

// Flags that commands share. Each names the member that it fills; all keys are those of generation_config.json.

/// --model, for commands that read the tokenizer only.
void add_model_flag(CLI::App& app, std::string& path);
/// --model --dtype --device --threads
void add_model_flags(CLI::App& app, tasks::ModelRequest& model);
/// --cache-implementation --cache-config --max-cache-len: which cache
void add_cache_kind_flags(CLI::App& app, GenerateOptions& options, std::string& cache_config);
/// The same and --no-use-cache --prefill-chunk-size
void add_cache_flags(CLI::App& app, GenerateOptions& options, std::string& cache_config);
/// --json
void add_json_flag(CLI::App& app, bool& json, const std::string& what);

}  // namespace mneme::cli
