#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mneme/cache/config.h"
#include "mneme/generate/logits_processor.h"

namespace mneme {

class CausalLM;
class JsonConstraint;
class Tokenizer;

/// Called for each new token: sequence of the batch, id. Runs on the generating thread.
using TokenCallback = std::function<void(std::int64_t sequence, std::int64_t id)>;

/// When beam search ends: false as soon as no running beam is likely to be better, true with num_beams ended ones,
/// "never" when none can be better.
enum class EarlyStopping { kFalse, kTrue, kNever };

/// A bias on the last of these ids where the others stand before it.
struct SequenceBias {
  std::vector<std::int64_t> ids = {};
  double bias = 0;
  friend bool operator==(const SequenceBias&, const SequenceBias&) = default;
};

/// From the start-th new token on, an eos grows likelier by factor^n.
struct ExponentialDecay {
  std::int64_t start = 0;
  double factor = 1;
  friend bool operator==(const ExponentialDecay&, const ExponentialDecay&) = default;
};

/// A mark on sampled text: ids of a list that the token before decides about are likelier by `bias`.
/// (Kirchenbauer et al. 2023, arXiv:2301.10226)
struct WatermarkingConfig {
  double greenlist_ratio = 0.25;
  double bias = 2.0;
  std::int64_t hashing_key = 15485863;
  std::string seeding_scheme = "lefthash";  ///< or "selfhash"
  std::int64_t context_width = 1;
  friend bool operator==(const WatermarkingConfig&, const WatermarkingConfig&) = default;
};

/// What a call to generate() asks for. Members carry the keys of generation_config.json; what is unset comes from the
/// model's generation_config.json, and what that leaves open from transformers' defaults (GenerationConfig).
struct GenerateOptions {
  // How long.
  std::optional<std::int64_t> max_new_tokens = {};
  std::optional<std::int64_t> min_new_tokens = {};  ///< no eos before so many
  std::optional<std::int64_t> max_length = {};      ///< prompt included; max_new_tokens wins
  std::optional<std::int64_t> min_length = {};      ///< prompt included
  std::optional<double> max_time = {};              ///< seconds; checked after every token
  /// A text ends with the token that completes one of them, which may begin in the prompt. Needs `tokenizer_decode`.
  std::vector<std::string> stop_strings = {};

  // Which tokens.
  std::optional<bool> do_sample = {};
  std::optional<std::int64_t> num_beams = {};
  std::optional<std::int64_t> num_return_sequences = {};  ///< of each prompt: at most num_beams, or when sampling any
  std::optional<double> length_penalty = {};  ///< beams: a score is its log-probability / (new tokens ^ length_penalty)
  std::optional<EarlyStopping> early_stopping = {};
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> top_h = {};
  std::optional<double> typical_p = {};
  std::optional<double> epsilon_cutoff = {};
  std::optional<double> eta_cutoff = {};
  std::optional<double> repetition_penalty = {};
  std::optional<double> encoder_repetition_penalty = {};
  std::optional<std::int64_t> no_repeat_ngram_size = {};
  std::optional<std::int64_t> encoder_no_repeat_ngram_size = {};
  std::optional<std::vector<std::vector<std::int64_t>>> bad_words_ids = {};
  std::optional<std::vector<SequenceBias>> sequence_bias = {};
  std::optional<std::int64_t> forced_bos_token_id = {};
  std::optional<std::vector<std::int64_t>> forced_eos_token_id = {};
  std::optional<std::vector<std::int64_t>> suppress_tokens = {};
  std::optional<std::vector<std::int64_t>> begin_suppress_tokens = {};
  std::optional<ExponentialDecay> exponential_decay_length_penalty = {};
  std::optional<bool> renormalize_logits = {};
  std::optional<bool> remove_invalid_values = {};
  std::optional<double> guidance_scale = {};
  std::optional<WatermarkingConfig> watermarking_config = {};
  std::optional<std::uint64_t> seed = {};  ///< unset: drawn, and reported in the output
  /// guidance_scale: what to lead away from, one for each prompt; none: the last token of each prompt.
  std::vector<std::vector<std::int64_t>> negative_prompt_ids = {};
  /// Which ids may follow the tokens of a sequence that continues this prompt of the batch; an empty list is an error.
  std::function<std::vector<std::int64_t>(std::int64_t prompt, std::span<const std::int64_t> tokens)>
      prefix_allowed_tokens_fn = {};
  /// Sequences end as JSON that obeys a schema (json_constraint.h). Needs an eos.
  std::shared_ptr<const JsonConstraint> json_constraint = {};
  std::vector<LogitsProcessor> logits_processors = {};  ///< one's own

  // Drafts: tokens guessed ahead, which the model checks in one pass. The text is the same with and without them.
  std::optional<std::int64_t> prompt_lookup_num_tokens = {};  ///< guess what followed the same words before
  std::optional<std::int64_t> max_matching_ngram_size = {};   ///< as many words at most [2]
  const CausalLM* assistant_model = nullptr;              ///< a smaller model that guesses; it must outlive the call
  std::optional<std::int64_t> num_assistant_tokens = {};  ///< at most so many at a time [20]
  std::optional<double> assistant_confidence_threshold = {};  ///< it stops where it is less sure of a token [0.4]
  /// Where the assistant has other ids than the model: the tokenizers of both.
  const Tokenizer* tokenizer = nullptr;
  const Tokenizer* assistant_tokenizer = nullptr;

  // What remembers.
  std::optional<bool> use_cache = {};  ///< false: every token recomputes its whole past
  /// "dynamic" | "static" | "offloaded" | "offloaded_static" | "quantized"; unset: dynamic, or quantized where
  /// cache_config names a codec
  std::optional<std::string> cache_implementation = {};
  CacheConfig cache_config = {};  ///< codec and placement; goes with every implementation
  std::optional<std::int64_t> max_cache_len =
      {};  ///< static: default prompt + new tokens; makes a quantized one static
  std::optional<std::int64_t> prefill_chunk_size =
      {};  ///< tokens of a prompt computed at a time; never changes results

  /// The step of decoding is planned once and replayed for each token, with any cache (StepPlan). true: planned anew
  /// for each token; never changes results.
  std::optional<bool> disable_compile = {};

  std::optional<std::vector<std::int64_t>> eos_token_id = {};  ///< an empty list: never stop
  std::optional<std::int64_t> pad_token_id = {};
  std::optional<std::int64_t> decoder_start_token_id = {};  ///< encoder-decoders, where no decoder ids are given
  std::optional<std::string> language = {};                 ///< speech: which is spoken, "en" say; unset: it is heard
  std::optional<std::string> task = {};                     ///< speech: "transcribe" or "translate"

  TokenCallback on_token = {};  ///< streaming
  /// Text of the last ids of a sequence; set by whoever has a tokenizer when there are stop_strings.
  std::function<std::string(const std::vector<std::int64_t>&)> tokenizer_decode = {};
  /// Called before each chunk of the prompts and after the last one: tokens computed, tokens of all prompts.
  std::function<void(std::int64_t done, std::int64_t total)> on_prefill = {};
  /// Polled after every token, and while prompts are read about four times a second: true ends with what there is
  /// (finish reason "cancelled"; the cache keeps what was read). Where it is set, chunks of prompts are only as long as
  /// that takes, 128 tokens at least by default.
  /// A CancellationToken is one that other threads may set.
  std::function<bool()> cancelled = {};
  /// Called after every token: true ends that sequence (finish reason "stop").
  std::vector<std::function<bool(const SequenceView&)>> stopping_criteria = {};
  /// Out of memory (a GPU's, or max_cache_bytes): begin again with an offloaded cache instead of an error. The tokens
  /// are the same ones, and those that were streamed are not streamed again. Not with a cache of one's own.
  bool offload_if_out_of_memory = false;

  bool output_logits = false;         ///< keep the logits after each prompt, and the smallest gap of all steps
  bool output_step_logits = false;    ///< keep the logits of all steps
  bool output_scores = false;         ///< keep what the processors made of them
  bool output_hidden_states = false;  ///< keep what each layer made of each token; not of encoder-decoders
  bool output_logprobs = false;       ///< keep the log-probability of each new token, before any processor
};

}  // namespace mneme
