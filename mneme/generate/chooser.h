#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mneme/generate/batch.h"
#include "mneme/generate/config.h"
#include "mneme/generate/logits_processor.h"
#include "mneme/generate/output.h"

namespace mneme {

/// Chooses the next token of a sequence: the best one, or one drawn by a number that is a function of seed,
/// continuation and step alone. So a token depends on its text only, and a right guess is what would have been chosen
/// anyway.
class Chooser {
 public:
  /// All of them must outlive it.
  Chooser(const GenerationSettings& settings, const GenerateOptions& options,
          const std::vector<LogitsProcessor>& processors, GenerateOutput& output)
      : settings_(settings), options_(options), processors_(processors), output_(output) {}

  /// logits [V] of what follows; they become scores. Keeps of the step what the options ask for.
  /// Throws Error(kFailedPrecondition) for logits that are not finite, and if every token is banned.
  std::int64_t choose(std::span<float> logits, Sequence& sequence, const SequenceView& view) const;

 private:
  const GenerationSettings& settings_;
  const GenerateOptions& options_;
  const std::vector<LogitsProcessor>& processors_;
  GenerateOutput& output_;
};

/// By step, what was kept of each sequence: [rows, V], zero for those that ended before.
std::vector<at::Tensor> steps_of(const std::vector<Sequence>& sequences,
                                 std::vector<std::vector<float>> Sequence::*member, std::int64_t vocabulary);

}  // namespace mneme
