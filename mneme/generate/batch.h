#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/generate/config.h"
#include "mneme/generate/logits_processor.h"
#include "mneme/generate/prompts.h"
#include "mneme/generate/step_states.h"
#include "mneme/models/hidden_states.h"
#include "mneme/models/model.h"

namespace mneme {

/// An empty cache of the kind that the settings ask for.
Cache make_cache(const CacheShape& shape, const GenerationSettings& settings);

/// A sequence under way.
struct Sequence {
  std::vector<std::int64_t> tokens = {};                     ///< ids of prompt and new ones
  std::int64_t prompt_length = 0;                            ///< of them, those of the prompt
  std::int64_t n_without_ids = 0;                            ///< tokens before them that were given as vectors alone
  std::int64_t prompt = 0;                                   ///< which prompt it continues
  std::int64_t hypothesis = 0;                               ///< which of that prompt's beams or continuations it is
  std::string finish_reason = {};                            ///< empty while it goes on
  std::vector<double> logprobs = {};                         ///< of the new tokens, if they are asked for
  std::vector<std::vector<float>> logits = {}, scores = {};  ///< before and after the processors, the same

  bool finished() const { return !finish_reason.empty(); }
  std::int64_t n_new() const { return std::ssize(tokens) - prompt_length; }
  /// Tokens of the text, and of them those of the prompt, with ids or without.
  std::int64_t length() const { return n_without_ids + std::ssize(tokens); }
  std::int64_t n_prompt() const { return n_without_ids + prompt_length; }
  std::vector<std::int64_t> new_tokens() const { return {tokens.begin() + prompt_length, tokens.end()}; }
};

/// Sequences under way and the cache that holds their past: what every strategy of generation runs on.
class Batch {
 public:
  /// prompts: what each sequence starts from, none empty. `cache` may hold beginnings of them, or be null: then an
  /// own one is made. Where sequences will be multiplied, a caller's cache is left as it is and a copy of it used.
  /// `cross`: an encoder-decoder's other cache, which is multiplied too, or null. Throws Error(kInvalidArgument) for
  /// prompts and caches that do not fit.
  Batch(const Model& model, const GenerationSettings& settings, const GenerateOptions& options,
        std::vector<PromptTokens> prompts, Cache* cache, Cache* cross);

  std::vector<Sequence>& sequences() noexcept { return sequences_; }
  const std::vector<Sequence>& sequences() const noexcept { return sequences_; }
  std::int64_t size() const noexcept { return std::ssize(sequences_); }
  Cache& cache() noexcept { return *cache_; }
  const Model& model() const noexcept { return model_; }
  std::int64_t prompt_tokens() const noexcept { return prompt_tokens_; }
  std::int64_t cached_tokens() const noexcept { return cached_tokens_; }

  /// Sequence i as processors see it. `sources`: what the encoder read, or none.
  SequenceView view(const Sequence& sequence) const;
  /// What the encoder read, by prompt: for processors.
  void set_sources(std::vector<std::vector<std::int64_t>> sources) { sources_ = std::move(sources); }

  /// Reads the prompts in chunks. False if it was cancelled between two of them: then the cache holds whole chunks, and
  /// there are no logits.
  bool prefill();
  /// Each sequence n times in a row, sharing its past: O(layers).
  void multiply(std::int64_t n);
  /// Reads what is not in the cache yet of every unfinished sequence.
  void step();
  /// Reads what is not in the cache yet of the only sequence, and behind it tokens that may turn out wrong: [drafts +
  /// 1, V] logits on the CPU, what follows its last token and then each draft. keep() takes back those that were wrong.
  at::Tensor read_ahead(std::span<const std::int64_t> drafts);
  /// From the first read_ahead on the cache records its past; here it goes back to all but the sequence's last token.
  void keep();
  /// Sequence i becomes what sequence rows[i] was, cache and all.
  void reorder(std::span<const std::int64_t> rows);

  /// [B, V] on the CPU: what follows the last token read of each sequence. Rows of finished sequences are old.
  at::Tensor& logits() noexcept { return logits_; }
  std::span<float> logits_of(std::int64_t sequence);
  /// What every step read, if output_hidden_states.
  StepStates& states() noexcept { return states_; }

 private:
  std::int64_t n_vectors(const Sequence& sequence) const;
  std::int64_t position(const Sequence& sequence, std::int64_t place) const;
  void feed(const std::vector<std::int64_t>& counts);
  void read(const std::vector<std::int64_t>& counts, bool as_vectors);
  std::optional<HiddenStates> run(TokenBatch tokens, std::span<const std::int64_t> rows, at::Tensor& logits,
                                  std::span<const std::int64_t> places);

  const Model& model_;
  const GenerationSettings& settings_;
  const GenerateOptions& options_;
  std::vector<Sequence> sequences_;
  std::vector<PromptTokens> prompts_;  // their vectors and positions
  std::vector<std::vector<std::int64_t>> sources_;
  std::optional<Cache> own_cache_;
  Cache* cache_ = nullptr;
  Cache* cross_ = nullptr;
  at::Tensor logits_;
  StepStates states_;
  at::Tensor states_ahead_;   // of the last known token and of the drafts, until keep()
  std::int64_t n_known_ = 0;  // tokens that were read ahead from
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0;
};

}  // namespace mneme
