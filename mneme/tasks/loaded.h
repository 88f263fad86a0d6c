#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "mneme/generate/auto_tokenizer.h"
#include "mneme/generate/causal_lm.h"
#include "mneme/generate/seq2seq_lm.h"
#include "mneme/tasks/tasks.h"

namespace mneme::tasks {

/// Whether a task can do without the model's tokenizer.
enum class TokenizerNeed { kOptional, kRequired };

/// A model with its tokenizer.
struct Loaded {
  std::variant<std::shared_ptr<const CausalLM>, std::shared_ptr<const Seq2SeqLM>> model;
  std::optional<TextTokenizer> tokenizer;  ///< none if the model comes without one
  std::string name;                        ///< the last part of the path
  double load_ms = 0;

  /// Null for a model of the other kind.
  const CausalLM* causal() const;
  const Seq2SeqLM* seq2seq() const;
};

/// Whether a path holds an encoder-decoder, by its config.json alone. Throws what ModelConfig and architecture_of
/// throw.
bool is_seq2seq(const std::string& path);

/// Sets the number of threads and loads model and tokenizer, both at once. The config says which kind of model it is.
/// Throws Error as AutoModelForCausalLM, AutoModelForSeq2SeqLM and AutoTokenizer do, and Error(kInvalidArgument /
/// kUnsupported) for a dtype or a device that is not there. An optional tokenizer that cannot be read is a warning.
Loaded load(const ModelRequest& request, TokenizerNeed need);

/// The dtype that a request names; nothing for "auto" and "int8", where numbers are as stored. Throws
/// Error(kInvalidArgument).
std::optional<DType> dtype_of(const ModelRequest& request);

/// The same as LoadOptions take it, at::kChar for "int8".
std::optional<at::ScalarType> load_dtype_of(const ModelRequest& request);

/// A --cache-config. Throws Error(kCorruptData) for what is not JSON and Error(kInvalidArgument) for keys and values
/// that cannot be.
CacheConfig cache_config_of(const std::string& json);

/// Options by flags, and behind them those of --generation-config and --cache-config, checked.
/// Throws Error(kInvalidArgument).
GenerateOptions options_of(GenerateOptions options, const std::string& cache_config,
                           const std::string& generation_config);

/// Ids of a prompt; a text gets the special tokens that the tokenizer adds.
/// Throws Error(kInvalidArgument) for a text without a tokenizer.
std::vector<std::int64_t> ids_of(const Prompt& prompt, const Loaded& loaded);

}  // namespace mneme::tasks
