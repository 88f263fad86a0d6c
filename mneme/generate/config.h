#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/cache/config.h"
#include "mneme/models/config.h"

namespace mneme {

/// Called for each new token: sequence of the batch, id. Runs on the generating thread.
using TokenCallback = std::function<void(std::int64_t sequence, std::int64_t id)>;

/// What a call to generate() asks for. Members carry the keys of generation_config.json; what is unset comes from the
/// model's generation_config.json, and what that leaves open from transformers' defaults (GenerationConfig).
struct GenerateOptions {
  std::optional<std::int64_t> max_new_tokens = {};
  std::optional<std::int64_t> min_new_tokens = {};
  std::optional<std::int64_t> max_length = {};  ///< prompt included; max_new_tokens wins
  std::optional<double> max_time = {};          ///< seconds; checked after every token
  std::vector<std::string> stop_strings = {};   ///< needs `tokenizer_decode`
  std::optional<bool> do_sample = {};
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> repetition_penalty = {};
  std::optional<std::uint64_t> seed = {};  ///< unset: drawn, and reported in the output
  std::optional<bool> use_cache = {};      ///< false: every token recomputes its whole past
  /// "dynamic" | "static" | "offloaded" | "offloaded_static" | "quantized"; unset: dynamic, or quantized where
  /// cache_config names a codec
  std::optional<std::string> cache_implementation = {};
  CacheConfig cache_config = {};  ///< codec and placement; goes with every implementation
  std::optional<std::int64_t> max_cache_len =
      {};  ///< static: default prompt + new tokens; makes a quantized one static
  std::optional<std::int64_t> prefill_chunk_size =
      {};  ///< tokens of a prompt computed at a time; never changes results
  std::optional<std::vector<std::int64_t>> eos_token_id = {};  ///< an empty list: never stop
  std::optional<std::int64_t> pad_token_id = {};
  std::optional<std::int64_t> decoder_start_token_id = {};  ///< encoder-decoders, where no decoder ids are given

  TokenCallback on_token = {};  ///< streaming
  /// Text of one sequence's new ids so far; set by whoever has a tokenizer when there are stop_strings.
  std::function<std::string(const std::vector<std::int64_t>&)> tokenizer_decode = {};
  /// Called before each chunk of the prompts and after the last one: tokens computed, tokens of all prompts.
  std::function<void(std::int64_t done, std::int64_t total)> on_prefill = {};
  /// Polled after every chunk of the prompts and every token: true ends with what there is (finish reason "cancelled").
  std::function<bool()> cancelled = {};
  bool output_logits = false;  ///< keep the logits after each prompt, and the smallest gap of all steps
};

/// generation_config.json of a model: defaults that a call can override.
struct GenerationConfig {
  std::optional<std::int64_t> max_new_tokens, min_new_tokens, max_length;
  std::optional<bool> do_sample = {};
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k = {};
  std::vector<std::int64_t> eos_token_id = {};
  std::optional<std::int64_t> bos_token_id, pad_token_id, decoder_start_token_id;

  /// Reads `path`/generation_config.json. As in transformers that file alone decides about eos; where there is none (or
  /// a .gguf file) the model's config does. Throws Error(kCorruptData) naming file and key.
  static GenerationConfig from_pretrained(const std::string& path, const ModelConfig& model);
  static GenerationConfig from_json(const Json& json, const std::string& name);
};

/// Checks all that needs no model, so that a caller can refuse a call before it loads one: Error(kInvalidArgument)
/// names the option, its value and what is allowed. resolve() does it too.
void check_values(const GenerateOptions& options);

/// Everything decided and checked: what the loop runs by.
struct GenerationSettings {
  std::int64_t max_new_tokens = 0;
  std::int64_t min_new_tokens = 0;
  std::optional<double> max_time = {};
  std::vector<std::string> stop_strings = {};
  bool do_sample = false;
  double temperature = 1.0;
  std::int64_t top_k = 50;  ///< 0: off
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  std::uint64_t seed = 0;
  bool use_cache = true;
  std::string cache_implementation = "dynamic";
  CacheConfig cache_config = {};
  std::int64_t max_cache_len = 0;  ///< static only, else 0
  std::int64_t prefill_chunk_size = 0;
  std::vector<std::int64_t> eos_token_id = {};
  std::int64_t pad_token_id = 0;
};

/// Throws Error(kInvalidArgument) where a call passes a cache and asks for another kind, or for none.
void check_cache_choice(const GenerateOptions& call, bool has_cache);

/// Merges call, model and defaults for prompts of which the longest has `prompt_length` tokens, and checks the result:
/// Error(kInvalidArgument) as check_values(). Warns of options that only matter when sampling.
GenerationSettings resolve(const GenerateOptions& call, const GenerationConfig& model, std::int64_t prompt_length,
                           std::int64_t batch_size);

}  // namespace mneme
