#include <fmt/ranges.h>

#include <memory>

#include "mneme/base/error.h"
#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/generation_flags.h"
#include "mneme/cli/interrupt.h"
#include "mneme/cli/line_editor.h"
#include "mneme/cli/model_path.h"
#include "mneme/cli/number.h"
#include "mneme/cli/tasks_library.h"

namespace mneme::cli {
namespace {

constexpr const char* kHelp =
    "/undo            take back the last turn\n"
    "/fork NAME       go on in a new conversation that begins like this one\n"
    "/switch [NAME]   go on in another conversation; without a name: list them\n"
    "/system [TEXT]   another system prompt, or none\n"
    "/set KEY VALUE   an option of this conversation, by its key in generation_config.json: /set temperature 0.7\n"
    "/cache           draw the cache's blocks\n"
    "/save FILE       keep conversation and cache\n"
    "/load FILE       go on with what was kept\n"
    "/quit            or Ctrl-D\n"
    "A line that ends with \\ goes on in the next one; so does all between two lines of \"\"\".\n"
    "Ctrl-C ends an answer and keeps what there is of it; while you type, it drops the line.\n";

struct Flags {
  tasks::GenerateRequest generate;  // what the flags of generation fill
  tasks::ChatRequest chat;
};

/// Numbers, true, false, null, lists and objects are JSON; anything else is a text.
Json value_of(const std::string& text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

/// The first word of a text, which is left with the rest.
std::string take_word(std::string& text) {
  const std::size_t end = text.find(' ');
  const std::string word = text.substr(0, end);
  text = end == text.npos ? "" : text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  return word;
}

class Talk {
 public:
  Talk(tasks::Chat& chat, Console& console) : chat_(chat), console_(console) {}

  void run() {
    while (const std::optional<std::string> line = editor_.read(prompt())) {
      if (line->empty()) continue;
      try {
        if (line->starts_with('/')) {
          if (!obey(line->substr(1))) return;
        } else {
          say(*line);
        }
      } catch (const Error& error) {
        console_.say(error.what());  // the conversation goes on
      }
    }
    if (console_.stdout_is_terminal()) console_.write("\n");
  }

 private:
  std::string prompt() const {
    const std::string name = chat_.names().front();
    return name == "main" ? "> " : name + "> ";
  }

  void say(const std::string& text) {
    const Interrupt interrupt;
    tasks::GenerateEvents events;
    events.cancelled = Interrupt::asked;
    events.on_prefill = [&](std::int64_t done, std::int64_t total) {
      console_.progress(fmt::format("reading: {} of {} tokens", done, total));
    };
    events.on_text = [&](std::int64_t, std::string_view piece) { console_.write(piece); };
    const Json reply = chat_.say(text, events);
    console_.write("\n");
    const Json &usage = reply.at("usage"), &timing = reply.at("timing"), &cache = reply.at("cache");
    const auto whole = [](const Json& object, const char* key) { return object.at(key).get<std::int64_t>(); };
    std::string note =
        fmt::format("[{} of {} prompt tokens cached, {} new at {:.1f} tokens/s, cache {} tokens, {:.1f} MB",
                    whole(usage, "cached_tokens"), whole(usage, "prompt_tokens"), whole(usage, "new_tokens"),
                    timing.at("decode_tokens_per_s").get<double>(), whole(cache, "length"),
                    static_cast<double>(whole(cache, "bytes") + whole(cache, "bytes_offloaded")) / 1e6);
    if (reply.at("finish_reason") != "stop") note += ", ended by " + reply.at("finish_reason").get<std::string>();
    if (const std::int64_t n = whole(reply, "turns_dropped"); n > 0)
      note += fmt::format(", {} old turn{} dropped", n, n == 1 ? "" : "s");
    if (whole(reply, "tokens_dropped") > 0)
      note += fmt::format(", {} tokens slid away", whole(reply, "tokens_dropped"));
    console_.note(note + "]");
  }

  /// False: the end.
  bool obey(std::string rest) {
    const std::string command = take_word(rest);
    const auto needs = [&](const char* what) {
      check(!rest.empty(), ErrorKind::kInvalidArgument, "/{} needs {}; see /help", command, what);
    };
    if (command == "quit" || command == "exit") return false;
    if (command == "help") {
      console_.write(kHelp);
    } else if (command == "undo") {
      check(rest.empty(), ErrorKind::kInvalidArgument, "/undo takes one turn back at a time; leave \"{}\" out", rest);
      console_.note(chat_.undo() ? "taken back" : "nothing was said yet");
    } else if (command == "fork") {
      needs("a name");
      chat_.fork(rest);
    } else if (command == "switch") {
      if (rest.empty()) {
        console_.write(fmt::format("* {}\n", fmt::join(chat_.names(), "\n  ")));
      } else {
        chat_.switch_to(rest);
      }
    } else if (command == "system") {
      chat_.set_system_prompt(rest);
    } else if (command == "set") {
      const std::string key = take_word(rest);
      needs("a key and a value");
      chat_.set(key, value_of(rest));
    } else if (command == "cache") {
      console_.write(chat_.drawing());
    } else if (command == "save") {
      needs("a file");
      const bool has_cache = chat_.save(rest);
      console_.note("kept in " + rest +
                    (has_cache ? ", its cache in " + rest + ".safetensors" : "; it has no cache yet"));
    } else if (command == "load") {
      needs("a file");
      chat_.load(rest);
      console_.note("going on with " + rest);
    } else {
      throw Error(ErrorKind::kInvalidArgument, "there is no command /{}; see /help", command);
    }
    return true;
  }

  tasks::Chat& chat_;
  Console& console_;
  LineEditor editor_;
};

int run(Flags& flags, Console& console) {
  tasks::ChatRequest& request = flags.chat;
  request.options = flags.generate.options;
  request.generation_config = flags.generate.generation_config;
  request.json_schema = flags.generate.json_schema;
  request.model.path = find_model(request.model.path);
  console.progress("loading " + request.model.path);
  const std::unique_ptr<tasks::Chat> chat = load_tasks().open_chat(request);
  console.end_progress();
  if (console.stdout_is_terminal()) console.note("Say something; /help lists commands, Ctrl-D ends.");
  Talk(*chat, console).run();
  return kDone;
}

}  // namespace

Command add_chat(CLI::App& program) {
  CLI::App* app = program.add_subcommand("chat", "Talk with a model");
  const auto flags = std::make_shared<Flags>();
  add_model_flags(*app, flags->chat.model);
  app->add_option("--system-prompt", flags->chat.system_prompt, "What the model is told first")->group("Conversation");
  add_number<std::int64_t>(*app, "--max-context", flags->chat.max_context,
                           "Tokens of all turns together [all that the model can]")
      ->group("Conversation");
  app->add_option(
         "--full-context", flags->chat.full_context,
         "Where a turn does not fit: refuse (an error), drop-oldest (turns; not the system prompt) or slide (the "
         "first tokens and the newest stay, in the middle of an answer too) [refuse]")
      ->type_name("NAME")
      ->group("Conversation");
  add_number<std::int64_t>(*app, "--sink-tokens", flags->chat.sink_tokens,
                           "slide: first tokens that stay, up to half of the context [4]")
      ->group("Conversation");
  add_length_flags(*app, flags->generate.options);
  add_choice_flags(*app, flags->generate);
  add_cache_flags(*app, flags->generate.options, flags->chat.cache_config);
  app->footer(std::string("\nWithin a conversation:\n") + kHelp);
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace mneme::cli
