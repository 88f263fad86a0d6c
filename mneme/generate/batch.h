#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/generate/config.h"
#include "mneme/generate/logits_processor.h"
#include "mneme/generate/prompts.h"
#include "mneme/generate/sequence.h"
#include "mneme/generate/step_plan.h"
#include "mneme/generate/step_states.h"
#include "mneme/models/hidden_states.h"
#include "mneme/models/model.h"

namespace mneme {

/// An empty cache of the kind that the settings ask for.
Cache make_cache(const CacheShape& shape, const GenerationSettings& settings);

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
  /// Reads what is not in the cache yet of every unfinished sequence. Where that is one token each, a StepPlan does.
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
  /// Steps that were planned, and steps that went by a plan.
  std::int64_t n_plans() const noexcept { return n_plans_; }
  std::int64_t n_replays() const noexcept { return n_replays_; }
  /// What every step read, if output_hidden_states.
  StepStates& states() noexcept { return states_; }

 private:
  std::int64_t n_vectors(const Sequence& sequence) const;
  std::int64_t position(const Sequence& sequence, std::int64_t place) const;
  bool goes_by_plan() const;
  void replay();
  void feed(const std::vector<std::int64_t>& counts);
  void read(const std::vector<std::int64_t>& counts, bool as_vectors);
  std::optional<HiddenStates> run(TokenBatch tokens, std::span<const std::int64_t> rows, at::Tensor& logits,
                                  std::span<const std::int64_t> places);
  void compute(const TokenBatch& tokens, std::span<const std::int64_t> rows, at::Tensor& logits,
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
  std::optional<StepPlan> plan_;
  std::int64_t n_plans_ = 0, n_replays_ = 0;
  StepStates states_;
  at::Tensor states_ahead_;   // of the last known token and of the drafts, until keep()
  std::int64_t n_known_ = 0;  // tokens that were read ahead from
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0;
};

}  // namespace mneme
