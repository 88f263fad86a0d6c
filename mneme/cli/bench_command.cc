#include <memory>

#include "mneme/cli/command.h"
#include "mneme/cli/console.h"
#include "mneme/cli/exit_code.h"
#include "mneme/cli/flags.h"
#include "mneme/cli/input.h"
#include "mneme/cli/interrupt.h"
#include "mneme/cli/model_path.h"
#include "mneme/cli/number.h"
#include "mneme/cli/tasks_library.h"

namespace mneme::cli {
namespace {

struct Flags {
  tasks::BenchRequest request;
  std::string depths, batch_sizes;
  bool json = false;
};

double megabytes(const Json& bytes) { return bytes.get<double>() / 1e6; }

std::string header() {
  return fmt::format("{:>6} {:>7} {:>12} {:>10} {:>12} {:>14} {:>10} {:>10} {:>6}\n", "batch", "depth", "decode tok/s",
                     "step ms", "prefill t/s", "first tok ms", "cache MB", "MB a step", "GB/s");
}
std::string row(const Json& line) {
  const std::string prefill = line.contains("prefill_tokens_per_s")
                                  ? fmt::format("{:.0f}", line.at("prefill_tokens_per_s").get<double>())
                                  : "-";
  return fmt::format("{:>6} {:>7} {:>12.1f} {:>10.2f} {:>12} {:>14.1f} {:>10.1f} {:>10.1f} {:>6.1f}\n",
                     line.at("batch_size").get<std::int64_t>(), line.at("depth").get<std::int64_t>(),
                     line.at("decode_tokens_per_s").get<double>(), line.at("step_ms").get<double>(), prefill,
                     line.at("first_token_ms").get<double>(),
                     megabytes(line.at("cache_bytes")) + megabytes(line.at("cache_bytes_offloaded")),
                     megabytes(line.at("bytes_per_step")), line.at("gigabytes_per_s").get<double>());
}

int run(Flags& flags, Console& console) {
  if (!flags.depths.empty()) flags.request.depths = parse_numbers(flags.depths);
  if (!flags.batch_sizes.empty()) flags.request.batch_sizes = parse_numbers(flags.batch_sizes);
  flags.request.model.path = find_model(flags.request.model.path);
  const Interrupt interrupt;
  bool has_header = false;
  const tasks::BenchEvents events{
      .on_progress =
          [&](std::int64_t batch, std::int64_t depth, std::int64_t done, std::int64_t total) {
            console.progress(fmt::format("batch {}, depth {}: {} of {} tokens", batch, depth, done, total));
          },
      .on_line =
          [&](const Json& line) {
            console.end_progress();
            if (flags.json) return;
            if (!has_header) console.write(header());
            has_header = true;
            console.write(row(line));
          },
      .cancelled = Interrupt::asked};
  const Json result = load_tasks().bench(flags.request, events);
  console.end_progress();
  if (flags.json) {
    console.write_json(result);
  } else {
    const Json& stream = result.at("stream_gbps");
    console.note(fmt::format("{}, {} on {} threads ({}); memory reads {:.1f} GB/s before and {:.1f} after",
                             result.at("model").get<std::string>(), result.at("dtype").get<std::string>(),
                             result.at("threads").get<int>(), result.at("instruction_set").get<std::string>(),
                             stream.at("before").get<double>(), stream.at("after").get<double>()));
  }
  return Interrupt::asked() ? kInterrupted : kDone;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "How fast a model reads and writes, with any cache");
  const auto flags = std::make_shared<Flags>();
  app->add_option("--depths", flags->depths, "Tokens that the cache holds before the first new one [0,512]")
      ->group("What to measure")
      ->type_name("0,4096");
  app->add_option("--batch-sizes", flags->batch_sizes, "Sequences at once [1]")
      ->group("What to measure")
      ->type_name("1,8");
  add_number<std::int64_t>(*app, "--max-new-tokens", flags->request.new_tokens, "Tokens of a round [32]")
      ->group("What to measure");
  add_number<std::int64_t>(*app, "--repeat", flags->request.repeat,
                           "Rounds; their median is shown; prompts are read again for 3 s at most [5]")
      ->group("What to measure");
  add_model_flags(*app, flags->request.model);
  add_cache_flags(*app, flags->request.cache, flags->request.cache_config);
  add_json_flag(*app, flags->json, "one object: machine, memory bandwidth before and after, one result a line");
  app->footer(R"(
Examples:
  mneme bench
  mneme bench --depths 0,1024,4096 --cache-config '{"backend": "kivi", "nbits_value": 2}'
  mneme bench --depths 0 --batch-sizes 1,2,4,8,16 --dtype int8 --json)");
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace mneme::cli
