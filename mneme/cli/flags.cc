#include "mneme/cli/flags.h"

#include "mneme/cli/number.h"

namespace mneme::cli {

void add_model_flag(CLI::App& app, std::string& path) {
  app.add_option("--model", path,
                 "A folder as save_pretrained writes it, a .gguf file, or a hub id that is in the local cache "
                 "[the model that set-up fetched]")
      ->group("Model")
      ->type_name("PATH|ID");
}

void add_model_flags(CLI::App& app, tasks::ModelRequest& model) {
  add_model_flag(app, model.path);
  app.add_option("--dtype", model.dtype, "auto (as stored), int8 (linear layers), float32, bfloat16 or float16 [auto]")
      ->group("Model")
      ->type_name("NAME");
  app.add_option("--device", model.device, "cpu or cuda [cpu]")->group("Model")->type_name("NAME");
  add_number<int>(app, "--threads", model.threads, "Threads to compute with; results do not depend on it [all cores]")
      ->group("Model");
}

void add_cache_kind_flags(CLI::App& app, GenerateOptions& options, std::string& cache_config) {
  app.add_option("--cache-implementation", options.cache_implementation,
                 "dynamic (grows with the text), static (takes its memory once), quantized (few bits for all but the "
                 "newest tokens), offloaded, offloaded_static (old tokens on disk) [dynamic]")
      ->group("Cache")
      ->type_name("NAME");
  app.add_option("--cache-config", cache_config,
                 "How a cache encodes and places tokens, as in '{\"backend\": \"kivi\", \"nbits_key\": 4, "
                 "\"nbits_value\": 2, \"offloading\": true}'; a wrong key lists all [backend quanto, 4 bits]")
      ->group("Cache")
      ->type_name("JSON");
  add_number<std::int64_t>(app, "--max-cache-len", options.max_cache_len,
                           "Tokens that a static cache has room for [prompt + new tokens]")
      ->group("Cache");
}

void add_cache_flags(CLI::App& app, GenerateOptions& options, std::string& cache_config) {
  add_cache_kind_flags(app, options, cache_config);
  app.add_flag_callback(
         "--no-use-cache", [&options] { options.use_cache = false; }, "Compute the whole past again for each token")
      ->group("Cache");
  add_number<std::int64_t>(app, "--prefill-chunk-size", options.prefill_chunk_size,
                           "Tokens of a prompt computed at a time; results do not depend on it")
      ->group("Cache");
}

void add_json_flag(CLI::App& app, bool& json, const std::string& what) {
  app.add_flag("--json", json, "One JSON object on stdout and nothing else there: " + what)->group("Output");
}

}  // namespace mneme::cli
