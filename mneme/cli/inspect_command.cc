#include <memory>

#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/model_path.h"
#include "mneme/cli/number.h"
#include "mneme/cli/tasks_library.h"

namespace mneme::cli {
namespace {

struct Flags {
  tasks::InspectRequest request;
  bool json = false;
};

/// A JSON value as people read it: lists joined, objects as "key value".
std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    text += value.is_object() ? key + " " + shown(item) : shown(item);
  }
  return text;
}

/// Sections, each with its facts; a list of objects takes one line each.
std::string page(const Json& result) {
  std::string text;
  for (const auto& [section, facts] : result.items()) {
    text += section + "\n";
    for (const auto& [key, value] : facts.items()) {
      const bool rows = value.is_array() && !value.empty() && value.front().is_object();
      for (const Json& row : rows ? value : Json::array({value})) text += fmt::format("  {:<26}{}\n", key, shown(row));
    }
  }
  return text;
}

int run(Flags& flags, Console& console) {
  flags.request.model.path = find_model(flags.request.model.path);
  const Json result = load_tasks().inspect(flags.request);
  if (flags.json) {
    console.write_json(result);
  } else {
    console.write(page(result));
  }
  return kDone;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "inspect", "Show a model's layers, its cache plan, the memory it takes, and what computes here");
  const auto flags = std::make_shared<Flags>();
  add_model_flags(*app, flags->request.model);
  add_number<std::int64_t>(*app, "--length", flags->request.length,
                           "Tokens of a sequence that memory is estimated for [the model's longest, or 4096]")
      ->group("Memory");
  add_number<std::int64_t>(*app, "--batch-size", flags->request.batch_size,
                           "Sequences that memory is estimated for [1]")
      ->group("Memory");
  add_cache_kind_flags(*app, flags->request.cache, flags->request.cache_config);
  add_json_flag(*app, flags->json, "model, cache, memory, tokenizer, machine");
  app->footer(R"(
Examples:
  mneme inspect --model ./Mistral-7B-v0.1 --dtype float16
  mneme inspect --dtype int8 --length 4096 --batch-size 8
  mneme inspect --cache-config '{"backend": "kivi", "nbits_key": 4, "nbits_value": 2}')");
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace mneme::cli
