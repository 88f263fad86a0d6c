#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/generate/generation_config.h"
#include "mneme/generate/options.h"

namespace mneme {

/// Checks all that needs no model, so that a caller can refuse a call before it loads one: Error(kInvalidArgument)
/// names the option, its value and what is allowed. resolve() does it too.
void check_values(const GenerateOptions& options);

/// Everything decided and checked: what the loops run by.
struct GenerationSettings {
  GenerateOptions options = {};  ///< the call, filled up from the model's file and with the defaults of sampling
  std::int64_t max_new_tokens = 0;
  std::int64_t min_new_tokens = 0;
  bool do_sample = false;  ///< false too where the temperature is 0
  std::int64_t num_beams = 1;
  std::int64_t num_return_sequences = 1;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kFalse;
  std::uint64_t seed = 0;
  bool use_cache = true;
  std::string cache_implementation = "dynamic";
  CacheConfig cache_config = {};
  std::int64_t max_cache_len = 0;  ///< static only, else 0
  std::int64_t prefill_chunk_size = 0;
  std::vector<std::int64_t> eos_token_id = {};
  std::int64_t pad_token_id = 0;

  /// Whether tokens are guessed ahead.
  bool drafts() const { return options.assistant_model != nullptr || options.prompt_lookup_num_tokens.has_value(); }
  /// Sequences that each prompt becomes once it is read.
  std::int64_t n_hypotheses() const { return num_beams > 1 ? num_beams : num_return_sequences; }
};

/// Throws Error(kInvalidArgument) where a call passes a cache and asks for another kind, or for none.
void check_cache_choice(const GenerateOptions& call, bool has_cache);

/// Merges call, model and defaults for prompts of which the longest has `prompt_length` tokens, and checks the result:
/// Error(kInvalidArgument) as check_values(), and for options that exclude each other. Warns of options that only
/// matter when sampling.
GenerationSettings resolve(const GenerateOptions& call, const GenerationConfig& model, std::int64_t prompt_length,
                           std::int64_t batch_size);

}  // namespace mneme
