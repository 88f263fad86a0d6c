#include "mneme/cli/program.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "mneme/base/log.h"
#include "mneme/base/printable.h"
#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"

namespace mneme::cli {
namespace {

constexpr std::array kCommands = {add_generate, add_chat, add_nll, add_bench, add_tokenize, add_render, add_inspect};

constexpr const char* kFooter = R"(
Examples:
  mneme generate --prompt "I like rock music because" --max-new-tokens 40
  mneme generate --chat --prompt "Why do cats purr?" --do-sample --temperature 0.7 --seed 1
  mneme generate --model ./Qwen3-0.6B --dtype bfloat16 --prompt-file story.txt --max-new-tokens 200 --json
  mneme COMMAND --help

Exit codes: 0 done, 1 a failure while running, 2 wrong usage or input, 130 interrupted.)";

/// What was wrong with the flags, as one sentence with a way out. CLI11's own words name a missing value by its
/// placeholder, and what is left over backwards.
std::string usage_error(const CLI::ParseError& error, const CLI::App& program) {
  const auto used = program.get_subcommands();
  const std::string command = used.empty() ? "mneme" : "mneme " + used.front()->get_name();
  std::string text = error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  const std::string flag = text.substr(0, text.find(':'));
  const std::vector<std::string> left = program.remaining(/*recurse=*/true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) && !left.empty()) {
    const std::string word = printable(left.front());
    text = word.starts_with('-') ? fmt::format("{} has no option {}", command, word)
           : used.empty()        ? fmt::format("there is no command \"{}\"", word)
                                 : fmt::format("\"{}\" belongs to no option", word);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    text = flag + (text.ends_with("missing") ? " needs a value" : " may be given once");
  }
  return text + "; see " + command + " --help";
}

int run(int argc, const char* const* argv, Console& console) {
  CLI::App program("Text generation whose key/value cache is a first-class part", "mneme");
  program.set_version_flag("--version", "mneme " MNEME_VERSION);
  program.require_subcommand(0, 1);
  program.footer(kFooter);
  std::vector<Command> commands;
  for (const auto add : kCommands) commands.push_back(add(program));
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    console.write(std::string(version.what()) + "\n");
    return kDone;
  } catch (const CLI::CallForHelp&) {
    console.write(program.help() + "\n");
    return kDone;
  } catch (const CLI::ParseError& error) {
    throw UsageError(usage_error(error, program));
  }
  const auto chosen =
      std::find_if(commands.begin(), commands.end(), [](const Command& command) { return command.app->parsed(); });
  if (chosen == commands.end()) throw UsageError("no command was given; see mneme --help");
  return chosen->run(console);
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is StdoutClosed
  std::signal(SIGXFSZ, SIG_IGN);  // a file past the shell's limit (ulimit -f) is an error like a full disk
  Console console;
  std::set<std::string> warned;  // a warning is worth a word, not one for each turn
  set_warning_handler([&](const std::string& text) {
    if (warned.insert(text).second) console.say("warning: " + text);
  });
  int code = kFailed;
  try {
    code = run(argc, argv, console);
  } catch (...) {
    code = report_exception(console);
  }
  set_warning_handler({});
  return code;
}

}  // namespace mneme::cli
