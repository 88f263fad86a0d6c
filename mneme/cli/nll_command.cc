#include <memory>

#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/input.h"
#include "mneme/cli/model_path.h"
#include "mneme/cli/number.h"
#include "mneme/cli/tasks_library.h"

namespace mneme::cli {
namespace {

struct Flags {
  tasks::NllRequest request;
  std::string text_file, ids;
  bool json = false;
};

int run(Flags& flags, Console& console) {
  if (flags.text_file.empty() == flags.ids.empty()) throw UsageError("give either --text-file FILE or --ids 1,2,3");
  if (flags.ids.empty()) {
    flags.request.text = read_text(flags.text_file);
  } else {
    flags.request.text = parse_numbers(flags.ids);
  }
  flags.request.model.path = find_model(flags.request.model.path);
  const Json result = load_tasks().nll(flags.request);
  if (flags.json) {
    console.write_json(result);
  } else {
    console.write(fmt::format("{:.6f} nats a token over {} tokens\n", result.at("nll").get<double>(),
                              result.at("tokens").get<std::int64_t>()));
  }
  return kDone;
}

}  // namespace

Command add_nll(CLI::App& program) {
  CLI::App* app = program.add_subcommand("nll", "How well a model predicts a text, with any cache");
  const auto flags = std::make_shared<Flags>();
  app->add_option("--text-file", flags->text_file, "The text, byte for byte; - is standard input")
      ->group("Input")
      ->type_name("FILE");
  app->add_option("--ids", flags->ids, "The same as token ids")->group("Input")->type_name("1,2,3");
  add_number<std::int64_t>(*app, "--prefill", flags->request.prefill,
                           "Tokens that are fed at once; the rest is scored one by one")
      ->group("Input")
      ->required();
  add_model_flags(*app, flags->request.model);
  add_cache_flags(*app, flags->request.cache, flags->request.cache_config);
  add_json_flag(*app, flags->json, "{\"nll\": nats a token, \"tokens\": how many were scored}");
  app->footer("\nExample:\n  mneme nll --text-file chapter.txt --prefill 512 --cache-implementation quantized --json");
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace mneme::cli
