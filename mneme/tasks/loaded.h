#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mneme/generate/auto_tokenizer.h"
#include "mneme/generate/causal_lm.h"
#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// Whether a task can do without the model's tokenizer.
enum class TokenizerNeed { kOptional, kRequired };

/// A model with its tokenizer.
struct Loaded {
  std::shared_ptr<const CausalLM> model;
  std::optional<TextTokenizer> tokenizer;  ///< none if the model comes without one
  std::string name;                        ///< the last part of the path
  double load_ms = 0;
};

/// Sets the number of threads and loads model and tokenizer, both at once.
/// Throws Error as AutoModelForCausalLM and AutoTokenizer do, and Error(kInvalidArgument / kUnsupported) for a dtype or
/// a device that is not there. An optional tokenizer that cannot be read is a warning.
Loaded load(const ModelRequest& request, TokenizerNeed need);

/// The dtype that a request names; nothing for "auto". Throws Error(kInvalidArgument).
std::optional<DType> dtype_of(const ModelRequest& request);

/// A --cache-config. Throws Error(kCorruptData) for what is not JSON and Error(kInvalidArgument) for keys and values
/// that cannot be.
CacheConfig cache_config_of(const std::string& json);

/// Ids of a prompt; a text gets the special tokens that the tokenizer adds.
/// Throws Error(kInvalidArgument) for a text without a tokenizer.
std::vector<std::int64_t> ids_of(const Prompt& prompt, const Loaded& loaded);

}  // namespace mneme::tasks
