#include "mneme/cli/generation_flags.h"

#include <optional>
#include <string>
#include <vector>

#include "mneme/cli/exit_code.h"
#include "mneme/cli/input.h"
#include "mneme/cli/number.h"

namespace mneme::cli {

void add_length_flags(CLI::App& app, GenerateOptions& options) {
  const auto number = [&](const char* name, std::optional<std::int64_t>& member, const char* what) {
    add_number<std::int64_t>(app, name, member, what)->group("Length");
  };
  number("--max-new-tokens", options.max_new_tokens, "[generation_config.json, else by --max-length]");
  number("--min-new-tokens", options.min_new_tokens, "No end-of-text token before so many [0]");
  number("--max-length", options.max_length, "Prompt and new tokens together [20]");
  add_number<double>(app, "--max-time", options.max_time, "Seconds after which no further token is made")
      ->group("Length")
      ->type_name("S");
  app.add_flag_callback(
         "--ignore-eos", [&options] { options.eos_token_id.emplace(); }, "Go on behind the end of the text")
      ->group("Length");
  app.add_option_function<std::vector<std::string>>(
         "--stop-strings", [&options](const std::vector<std::string>& texts) { options.stop_strings = texts; },
         "Stop with the token that completes this; repeatable")
      ->group("Length")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_choice_flags(CLI::App& app, tasks::GenerateRequest& request) {
  GenerateOptions& options = request.options;
  constexpr const char* kGroup = "Choice of tokens";
  const auto number = [&](const char* name, std::optional<double>& member, const char* type, const char* what) {
    add_number<double>(app, name, member, what)->group(kGroup)->type_name(type);
  };
  app.add_flag_callback(
         "--do-sample", [&options] { options.do_sample = true; }, "Draw tokens by their probability, not the likeliest")
      ->group(kGroup);
  add_number<std::uint64_t>(app, "--seed", options.seed, "The same seed draws the same text [random, and reported]")
      ->group(kGroup);
  number("--temperature", options.temperature, "X", "Below 1 sharper, above 1 flatter; 0 is greedy [1]");
  add_number<std::int64_t>(app, "--top-k", options.top_k, "Only the N likeliest; 0: all [50]")->group(kGroup);
  number("--top-p", options.top_p, "P", "Only the likeliest that together reach P [1]");
  number("--min-p", options.min_p, "P", "Only those at least P times as likely as the likeliest [0]");
  number("--top-h", options.top_h, "P", "Only the likeliest with this part of the entropy [1]");
  number("--typical-p", options.typical_p, "P", "Only those as likely as is typical, that together reach P [1]");
  number("--epsilon-cutoff", options.epsilon_cutoff, "P", "Only those at least as likely as P [0]");
  number("--eta-cutoff", options.eta_cutoff, "P", "The same, less strict where much is possible [0]");
  number("--repetition-penalty", options.repetition_penalty, "X", "Above 1: what has occurred becomes less likely [1]");
  number("--encoder-repetition-penalty", options.encoder_repetition_penalty, "X",
         "Above 1: what the source or prompt says becomes likelier [1]");
  add_number<std::int64_t>(app, "--no-repeat-ngram-size", options.no_repeat_ngram_size,
                           "No N tokens in a row that occurred before; 0: off [0]")
      ->group(kGroup);
  add_number<std::int64_t>(app, "--encoder-no-repeat-ngram-size", options.encoder_no_repeat_ngram_size,
                           "No N tokens in a row of the source or prompt; 0: off [0]")
      ->group(kGroup);
  number("--guidance-scale", options.guidance_scale, "X",
         "Above 1: further from what the model says without prompt [1]");
  app.add_option_function<std::string>(
         "--json-schema",
         [&request](const std::string& value) {
           request.json_schema = value.find('{') == std::string::npos ? read_text(value) : value;
         },
         "Only JSON that obeys this schema: a file, - for standard input, or the schema itself")
      ->group(kGroup)
      ->type_name("FILE|JSON");
  app.add_option("--generation-config", request.generation_config,
                 "Any keys of generation_config.json, as in '{\"bad_words_ids\": [[5, 6]], \"suppress_tokens\": [7]}'; "
                 "flags go before them")
      ->group(kGroup)
      ->type_name("JSON");
}

void add_beam_flags(CLI::App& app, GenerateOptions& options) {
  constexpr const char* kGroup = "Several texts";
  add_number<std::int64_t>(app, "--num-beams", options.num_beams,
                           "Keep the N likeliest beginnings on the way, and give the best whole [1]")
      ->group(kGroup);
  add_number<std::int64_t>(app, "--num-return-sequences", options.num_return_sequences,
                           "Texts for each prompt: of the beams, or drawn with --do-sample [1]")
      ->group(kGroup);
  add_number<double>(app, "--length-penalty", options.length_penalty,
                     "Beams: log-probabilities are divided by length^X; above 0 favours long texts [1]")
      ->group(kGroup)
      ->type_name("X");
  app.add_option_function<std::string>(
         "--early-stopping",
         [&options](const std::string& text) {
           if (text != "true" && text != "false" && text != "never")
             throw UsageError("--early-stopping must be true, false or never, it is \"" + text + "\"");
           options.early_stopping = text == "true"    ? EarlyStopping::kTrue
                                    : text == "false" ? EarlyStopping::kFalse
                                                      : EarlyStopping::kNever;
         },
         "Beams end: true with N whole texts, false when no better one is likely, never when none is possible [false]")
      ->group(kGroup)
      ->type_name("WHEN");
  app.add_flag("--offload-if-out-of-memory", options.offload_if_out_of_memory,
               "Begin again with old tokens on disk where memory, or max_cache_bytes, does not suffice")
      ->group("Cache");
}

void add_draft_flags(CLI::App& app, tasks::GenerateRequest& request) {
  constexpr const char* kGroup = "Speed: tokens guessed ahead, which never change the text";
  GenerateOptions& options = request.options;
  add_number<std::int64_t>(app, "--prompt-lookup-num-tokens", options.prompt_lookup_num_tokens,
                           "Guess N tokens that followed the same words before")
      ->group(kGroup);
  app.add_option("--assistant-model", request.assistant_model, "A smaller model that guesses; any tokenizer will do")
      ->group(kGroup)
      ->type_name("PATH|ID");
  add_number<std::int64_t>(app, "--num-assistant-tokens", options.num_assistant_tokens, "At most N at a time [20]")
      ->group(kGroup);
}

}  // namespace mneme::cli
