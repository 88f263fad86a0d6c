#pragma once

#include <CLI/CLI.hpp>

#include "mneme/tasks/tasks.h"

namespace mneme::cli {

// How texts are generated, for commands that do. Each flag fills the member of the same name.

/// --max-new-tokens --min-new-tokens --max-length --max-time --ignore-eos --stop-strings
void add_length_flags(CLI::App& app, GenerateOptions& options);
/// --do-sample --seed --temperature --top-k and so on; --generation-config
void add_choice_flags(CLI::App& app, tasks::GenerateRequest& request);
/// --num-beams --num-return-sequences --length-penalty --early-stopping --offload-if-out-of-memory
void add_beam_flags(CLI::App& app, GenerateOptions& options);
/// --prompt-lookup-num-tokens --assistant-model --num-assistant-tokens
void add_draft_flags(CLI::App& app, tasks::GenerateRequest& request);

}  // namespace mneme::cli
