#include <memory>

#include "mneme/base/error.h"
#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/input.h"
#include "mneme/cli/model_path.h"
#include "mneme/text/chat_special_tokens.h"
#include "mneme/text/tokenizer.h"

namespace mneme::cli {
namespace {

struct Flags {
  std::string model, messages;
  ChatTemplateOptions options;
  bool json = false;
};

int run(Flags& flags, Console& console) {
  const Json messages = parse_json(read_text(flags.messages), flags.messages);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(find_model(flags.model));
  const std::string* source = tokenizer.chat_template();
  check(source != nullptr, ErrorKind::kInvalidArgument, "this model has no chat template; give it plain text");
  set_special_tokens(flags.options, tokenizer);
  const std::string text = ChatTemplate(*source, "chat template").render(messages, flags.options);
  if (flags.json) {
    const auto ids = tokenizer.encode(text, {.add_special_tokens = false});
    console.write_json(Json{{"text", text}, {"ids", ids}});
  } else {
    console.write(text);
    if (console.stdout_is_terminal() && !text.ends_with('\n')) console.write("\n");
  }
  return kDone;
}

}  // namespace

Command add_render(CLI::App& program) {
  CLI::App* app = program.add_subcommand("render", "Show messages as the model's chat template writes them");
  const auto flags = std::make_shared<Flags>();
  app->add_option("--messages", flags->messages,
                  "A JSON list of messages, each with \"role\" and \"content\"; - is standard input")
      ->group("Input")
      ->type_name("FILE")
      ->required();
  app->add_flag("--add-generation-prompt", flags->options.add_generation_prompt,
                "End with the header of a new assistant message")
      ->group("Input");
  app->add_flag("--continue-final-message", flags->options.continue_final_message,
                "End with the text of the last message, for the model to go on with")
      ->group("Input");
  add_model_flag(*app, flags->model);
  add_json_flag(*app, flags->json, "{\"text\", \"ids\"}");
  app->footer(R"(
Example:
  echo '[{"role": "user", "content": "Hi"}]' | mneme render --messages - --add-generation-prompt)");
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace mneme::cli
