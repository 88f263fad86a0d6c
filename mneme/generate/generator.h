#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/generate/config.h"
#include "mneme/generate/output.h"
#include "mneme/models/model.h"

namespace mneme {

/// An empty cache of the kind that the settings ask for.
Cache make_cache(const CacheShape& shape, const GenerationSettings& settings);

/// One call to generate(): prompts in, tokens out, by greedy choice or sampling.
///
/// A sequence's tokens are a function of its prompt, the settings and the seed: not of its batch mates, of chunks, of
/// threads or of the cache that holds its past (on the CPU, bit for bit).
class Generator {
 public:
  /// prompts: the real tokens of each sequence, none empty. A cache that holds tokens must hold less than each prompt;
  /// they are taken for its beginning. Throws Error(kInvalidArgument), Error(kFailedPrecondition).
  Generator(const Model& model, const GenerationSettings& settings, const GenerateOptions& options,
            std::vector<std::vector<std::int64_t>> prompts, Cache* cache);

  /// Fills everything of the output but `sequences`.
  GenerateOutput run();

 private:
  struct Sequence {
    std::vector<std::int64_t> tokens;  // prompt and new
    std::int64_t prompt_length = 0;
    std::string finish_reason;
    bool finished() const { return !finish_reason.empty(); }
    std::int64_t n_new() const { return std::ssize(tokens) - prompt_length; }
  };

  bool prefill();
  void decode();
  void feed(const std::vector<std::int64_t>& counts);
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }
  void choose(Sequence& sequence, std::int64_t index);
  std::string reason_to_stop(const Sequence& sequence) const;
  bool all_finished() const;
  double seconds() const;

  const Model& model_;
  const GenerationSettings& settings_;
  const GenerateOptions& options_;
  std::vector<Sequence> sequences_;
  std::optional<Cache> own_cache_;
  Cache* cache_ = nullptr;
  at::Tensor logits_;  // [B, V] on the CPU: the last ones of each sequence
  double start_ = 0;
  GenerateOutput output_;
};

}  // namespace mneme
