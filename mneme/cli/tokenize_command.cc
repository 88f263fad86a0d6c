#include <memory>
#include <optional>

#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/input.h"
#include "mneme/cli/model_path.h"
#include "mneme/text/tokenizer.h"

namespace mneme::cli {
namespace {

struct Flags {
  std::string model;
  std::optional<std::string> text, text_file;
  bool no_special_tokens = false;
  bool json = false;
};

int run(const Flags& flags, Console& console) {
  if (flags.text && flags.text_file) throw UsageError("give either --text TEXT or --text-file FILE");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(find_model(flags.model));
  const std::string text = flags.text ? *flags.text : read_text(flags.text_file.value_or("-"));
  const std::vector<std::int64_t> ids = tokenizer.encode(text, {.add_special_tokens = !flags.no_special_tokens});
  if (flags.json) {
    console.write_json(Json{{"ids", ids}, {"decoded", tokenizer.decode(ids)}});
  } else {
    console.write(fmt::format("{}\n", fmt::join(ids, " ")));
  }
  return kDone;
}

}  // namespace

Command add_tokenize(CLI::App& program) {
  CLI::App* app = program.add_subcommand("tokenize", "Show the token ids of a text");
  const auto flags = std::make_shared<Flags>();
  app->add_option("--text", flags->text, "The text [standard input]")->group("Input")->type_name("TEXT");
  app->add_option("--text-file", flags->text_file, "The same from a file, byte for byte")
      ->group("Input")
      ->type_name("FILE");
  app->add_flag("--no-special-tokens", flags->no_special_tokens, "Leave out what the tokenizer adds by itself (a BOS)")
      ->group("Input");
  add_model_flag(*app, flags->model);
  add_json_flag(*app, flags->json, "{\"ids\": [..], \"decoded\": the text of the ids}");
  app->footer("\nExamples:\n  mneme tokenize --text \"Hello, world!\" --json\n  mneme tokenize <chapter.txt | wc -w");
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace mneme::cli
