#include <fmt/ranges.h>

#include <map>
#include <memory>

#include "mneme/base/error.h"
#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/generation_flags.h"
#include "mneme/cli/input.h"
#include "mneme/cli/interrupt.h"
#include "mneme/cli/model_path.h"
#include "mneme/cli/tasks_library.h"

namespace mneme::cli {
namespace {

struct Flags {
  tasks::GenerateRequest request;
  bool json = false;
};

/// An option that may come several times, one value each; values keep their place among other options.
CLI::Option* add_repeatable(CLI::App& app, const std::string& name, const std::string& type, const std::string& what) {
  return app
      .add_option(
          name, [](const CLI::results_t&) { return true; }, what)
      ->group("Input")
      ->type_name(type)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_input_flags(CLI::App& app, Flags& flags) {
  add_repeatable(app, "--prompt", "TEXT", "A text to continue");
  add_repeatable(app, "--prompt-file", "FILE", "The same from a file, byte for byte; - is standard input");
  add_repeatable(app, "--ids", "1,2,3", "The same as token ids, which get no special tokens");
  add_repeatable(app, "--decoder-ids", "0,5,6",
                 "Encoder-decoders: what the decoder starts from, for each prompt or for all [decoder_start_token_id]");
  add_repeatable(app, "--audio", "FILE", "Speech models: a WAV file to write down, instead of a text");
  app.add_option("--language", flags.request.options.language, "Speech: which is spoken, \"en\" say [heard]")
      ->group("Input")
      ->type_name("CODE");
  app.add_option("--task", flags.request.options.task, "Speech: transcribe or translate [transcribe]")
      ->group("Input")
      ->type_name("NAME");
  app.add_flag("--chat", flags.request.chat, "Each prompt is a user's message, through the model's chat template")
      ->group("Input");
}

/// Prompts in the order of the command line, whatever their kind.
std::vector<tasks::Prompt> prompts_of(const CLI::App& app) {
  std::vector<tasks::Prompt> prompts;
  std::map<const CLI::Option*, std::size_t> seen;
  for (const CLI::Option* option : app.parse_order()) {
    const std::string& name = option->get_name();
    if (name != "--prompt" && name != "--prompt-file" && name != "--ids") continue;
    const std::string& value = option->results()[seen[option]++];
    if (name == "--ids") {
      prompts.emplace_back(parse_numbers(value));
    } else {
      prompts.emplace_back(name == "--prompt" ? value : read_text(value));
    }
  }
  if (prompts.empty() && app.get_option("--audio")->empty())
    throw UsageError("no prompt was given; use --prompt TEXT, --prompt-file FILE, --ids 1,2,3 or --audio FILE");
  return prompts;
}

/// The text of a sequence; where the model comes without a tokenizer, the ids of its new tokens.
std::string shown_text(const Json& text, const std::vector<std::int64_t>& new_ids) {
  return text.is_string() ? text.get<std::string>() : fmt::format("{}", fmt::join(new_ids, " "));
}

std::vector<std::vector<std::int64_t>> decoder_prompts_of(const CLI::App& app) {
  std::vector<std::vector<std::int64_t>> prompts;
  for (const std::string& ids : app.get_option("--decoder-ids")->results()) prompts.push_back(parse_numbers(ids));
  return prompts;
}

std::string timing_line(const Json& result) {
  const Json& usage = result.at("usage");
  const Json& timing = result.at("timing");
  return fmt::format("{} prompt tokens in {:.0f} ms, {} new in {:.0f} ms ({:.1f} tokens/s), loaded in {:.0f} ms",
                     usage.at("prompt_tokens").get<std::int64_t>(), timing.at("prefill_ms").get<double>(),
                     usage.at("new_tokens").get<std::int64_t>(), timing.at("decode_ms").get<double>(),
                     timing.at("decode_tokens_per_s").get<double>(), timing.at("load_ms").get<double>());
}

bool was_cancelled(const Json& result) {
  const Json& reasons = result.at("finish_reasons");
  return std::find(reasons.begin(), reasons.end(), "cancelled") != reasons.end();
}

int run(const CLI::App& app, Flags& flags, Console& console) {
  tasks::GenerateRequest& request = flags.request;
  request.prompts = prompts_of(app);
  request.decoder_prompts = decoder_prompts_of(app);
  request.audio = app.get_option("--audio")->results();
  if (request.options.output_logits && !flags.json) throw UsageError("--logits adds to the JSON; use it with --json");
  request.model.path = find_model(request.model.path);
  if (!request.assistant_model.empty()) request.assistant_model = find_model(request.assistant_model);
  const tasks::Tasks& tasks = load_tasks();

  const bool stream = !flags.json && request.prompts.size() + request.audio.size() == 1;
  std::optional<Interrupt> interrupt;
  tasks::GenerateEvents events;
  console.progress("loading " + request.model.path);
  events.on_loaded = [&] {
    console.end_progress();
    interrupt.emplace();
  };
  events.cancelled = Interrupt::asked;
  events.on_prefill = [&](std::int64_t done, std::int64_t total) {
    console.progress(fmt::format("reading the prompt: {} of {} tokens", done, total));
  };
  std::map<std::size_t, std::vector<std::int64_t>> new_ids;
  events.on_token = [&, n = 0](std::int64_t sequence, std::int64_t id) mutable {
    new_ids[static_cast<std::size_t>(sequence)].push_back(id);
    if (!stream) console.progress(fmt::format("writing: {} tokens", ++n));
  };
  if (stream) {
    events.on_text = [&](std::int64_t sequence, std::string_view text) {
      if (sequence == 0) console.write(text);  // further texts of one prompt follow when it is written
    };
  }
  const Json result = tasks.generate(request, events);

  const int code = was_cancelled(result) ? kInterrupted : kDone;
  if (flags.json) {
    console.write_json(result);
    return code;
  }
  const std::size_t n_texts = result.at("texts").size();
  for (std::size_t i = 0; i < n_texts; ++i) {
    const Json& text = result.at("texts").at(i);
    const bool streamed = stream && i == 0 && text.is_string();
    if (!stream || i > 0) console.note(fmt::format("--- {} of {}", i + 1, n_texts));
    console.write((streamed ? "" : shown_text(text, new_ids[i])) + "\n");
  }
  if (code == kInterrupted) console.note("cancelled");
  console.note(timing_line(result));
  return code;
}

}  // namespace

Command add_generate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("generate", "Continue texts");
  const auto flags = std::make_shared<Flags>();
  add_input_flags(*app, *flags);
  add_model_flags(*app, flags->request.model);
  add_length_flags(*app, flags->request.options);
  add_choice_flags(*app, flags->request);
  add_beam_flags(*app, flags->request.options);
  add_draft_flags(*app, flags->request);
  add_cache_flags(*app, flags->request.options, flags->request.cache_config);
  app->add_option("--prompt-cache", flags->request.prompt_cache,
                  "Keeps the cache of prompt and answer in this file, and takes from it what it holds of the prompt")
      ->group("Cache")
      ->type_name("FILE");
  add_json_flag(*app, flags->json, "ids, texts, timing");
  app->add_flag("--logits", flags->request.options.output_logits,
                "Adds the logits after each prompt to the JSON, and the smallest gap between the two best")
      ->group("Output");
  app->footer(R"(
--prompt, --prompt-file and --ids may come several times and together: one sequence each, computed as one batch.
For an encoder-decoder they are what its encoder reads, and --decoder-ids what its answer begins with.
--audio takes WAV files of the model's rate (16 kHz), half a minute at most each; their channels are mixed.
Values in brackets are defaults; a model's generation_config.json goes before them.
Ctrl-C stops after the current token and keeps what there is (exit code 130); a second one ends at once.

Examples:
  mneme generate --prompt "I like rock music because" --max-new-tokens 40
  mneme generate --chat --prompt-file question.txt --do-sample --top-p 0.9 --max-new-tokens 200
  mneme generate --model ./whisper-tiny --audio speech.wav --language en --max-new-tokens 200
  mneme generate --prompt-file long.txt --prompt-cache long.cache --max-new-tokens 200    # read once: then milliseconds
  mneme generate --prompt "One, two," --prompt "Uno, dos," --cache-implementation static --json)");
  return {app, [app, flags](Console& console) { return run(*app, *flags, console); }};
}

}  // namespace mneme::cli
