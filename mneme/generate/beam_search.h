#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mneme/generate/batch.h"
#include "mneme/generate/config.h"
#include "mneme/generate/logits_processor.h"
#include "mneme/generate/stopping.h"

namespace mneme {

/// A text that beam search ended with.
struct Hypothesis {
  std::vector<std::int64_t> tokens = {};        ///< the new ones
  std::vector<std::int64_t> beam_indices = {};  ///< for each of them the row of the batch that it was chosen for
  std::vector<double> logprobs = {};            ///< and its log-probability before any processor, if asked for
  float score = 0;                              ///< sum of log-probabilities / (new tokens ^ length_penalty)
  std::string finish_reason = {};
};

/// Beam search, or beam sampling: the num_beams likeliest beginnings of each prompt go on, those that end are kept by
/// score. As transformers does it, heuristics of early_stopping included; a prompt's beams do not depend on the rest of
/// the batch, and a prompt that is done is no longer computed.
class BeamSearch {
 public:
  /// A batch whose prompts are read, and multiplied by num_beams.
  BeamSearch(Batch& batch, const GenerationSettings& settings, const GenerateOptions& options, const Stopping& stopping,
             const std::vector<LogitsProcessor>& processors);

  /// Runs to the end. Returns the num_return_sequences best of each prompt, best first, prompt by prompt.
  std::vector<Hypothesis> run();
  std::int64_t n_steps() const noexcept { return n_steps_; }
  /// Of each step, if the options ask for them: logits, and log-probabilities behind the processors, of all beams.
  std::vector<at::Tensor> step_logits() { return std::move(step_logits_); }
  std::vector<at::Tensor> step_scores() { return std::move(step_scores_); }

 private:
  /// One more token for one beam.
  struct Candidate {
    std::int64_t beam = 0, id = 0;
    float score = 0;     ///< log-probability of the whole text
    double logprob = 0;  ///< of the token, before any processor
    std::string finish_reason = {};
  };
  struct Prompt {
    std::vector<float> scores;                            // of the running beams, best first
    std::vector<std::vector<std::int64_t>> beam_indices;  // of the running beams
    std::vector<std::vector<double>> logprobs;            // of the running beams
    std::vector<Hypothesis> ended;                        // best first, at most num_beams
    bool done = false;
  };

  void advance(std::int64_t prompt);
  std::vector<float> accumulated_scores(std::int64_t prompt);
  std::vector<Candidate> best(const std::vector<float>& accumulated) const;
  std::vector<Candidate> drawn(const std::vector<float>& accumulated, std::int64_t n_new) const;
  void end(std::int64_t prompt, const std::vector<Candidate>& candidates);
  void go_on(std::int64_t prompt, const std::vector<Candidate>& candidates);
  bool can_improve(const Prompt& prompt, std::int64_t n_new) const;

  Batch& batch_;
  const GenerationSettings& settings_;
  const GenerateOptions& options_;
  const Stopping& stopping_;
  const std::vector<LogitsProcessor>& processors_;
  std::int64_t n_beams_, n_candidates_;
  std::vector<Prompt> prompts_;
  std::vector<std::int64_t> rows_;      // where the next step's beams come from
  std::vector<std::int64_t> next_ids_;  // and what they add
  std::vector<at::Tensor> step_logits_, step_scores_;
  std::vector<float> raw_;  // log-probabilities of the beams of one prompt before any processor, if asked for
  std::int64_t n_steps_ = 0;
};

}  // namespace mneme
