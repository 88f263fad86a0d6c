#pragma once

#include <cstdint>
#include <vector>

#include "mneme/generate/batch.h"
#include "mneme/generate/chooser.h"
#include "mneme/generate/config.h"
#include "mneme/generate/output.h"
#include "mneme/generate/stopping.h"
#include "mneme/models/model.h"

namespace mneme {

/// One call to generate(): prompts in, tokens out.
///
/// A sequence's tokens are a function of its prompt, the settings and the seed: not of its batch mates, of chunks, of
/// threads, of drafts or of the cache that holds its past (on the CPU, bit for bit).
class Generator {
 public:
  /// See Batch. Throws Error(kInvalidArgument).
  Generator(const Model& model, const GenerationSettings& settings, const GenerateOptions& options,
            std::vector<PromptTokens> prompts, Cache* cache, Cache* cross = nullptr);

  /// An encoder-decoder: what its encoder read.
  void set_sources(std::vector<std::vector<std::int64_t>> sources) { batch_.set_sources(std::move(sources)); }

  /// Fills everything of the output but `sequences`.
  GenerateOutput run();

 private:
  void decode();
  void speculate();
  void search();
  void add(Sequence& sequence, std::int64_t index, std::int64_t id);
  void take_sequences();

  const GenerationSettings& settings_;
  const GenerateOptions& options_;
  Stopping stopping_;
  Batch batch_;
  std::vector<LogitsProcessor> processors_;
  GenerateOutput output_;
  Chooser chooser_;
};

}  // namespace mneme
