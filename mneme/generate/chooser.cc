#include "mneme/generate/chooser.h"

#include <algorithm>
#include <limits>

#include "mneme/base/error.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/sampler.h"

namespace mneme {

std::int64_t Chooser::choose(std::span<float> logits, Sequence& sequence, const SequenceView& view) const {
  if (!settings_.options.remove_invalid_values.value_or(false)) check_finite(logits);
  if (options_.output_logits) output_.min_gap = std::min(output_.min_gap, top_gap(logits));
  if (options_.output_step_logits) sequence.logits.emplace_back(logits.begin(), logits.end());
  const std::vector<float> raw =
      options_.output_logprobs ? std::vector<float>(logits.begin(), logits.end()) : std::vector<float>();
  for (const LogitsProcessor& process : processors_) process(logits, view);
  if (options_.output_scores) sequence.scores.emplace_back(logits.begin(), logits.end());
  // Streams number continuations of one prompt, not rows: a row draws the same whatever else is in the batch.
  const auto stream = static_cast<std::uint64_t>(view.hypothesis), step = static_cast<std::uint64_t>(view.n_new());
  const std::int64_t id = settings_.do_sample ? draw(logits, uniform(settings_.seed, stream, step)) : argmax(logits);
  const auto place = static_cast<std::size_t>(id);
  check(logits[place] > -std::numeric_limits<float>::infinity(), ErrorKind::kFailedPrecondition,
        "every token is banned after {} new tokens: what limits the choice excludes all of the vocabulary",
        view.n_new());
  if (options_.output_logprobs) sequence.logprobs.push_back(raw[place] - log_sum_exp(raw));
  return id;
}

std::vector<at::Tensor> steps_of(const std::vector<Sequence>& sequences,
                                 std::vector<std::vector<float>> Sequence::*member, std::int64_t vocabulary) {
  std::size_t n_steps = 0;
  for (const Sequence& s : sequences) n_steps = std::max(n_steps, (s.*member).size());
  std::vector<at::Tensor> steps;
  for (std::size_t t = 0; t < n_steps; ++t) {
    float* rows =
        steps.emplace_back(at::zeros({std::ssize(sequences), vocabulary}, at::kFloat)).mutable_data_ptr<float>();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto& kept = sequences[i].*member;
      if (t < kept.size()) std::ranges::copy(kept[t], rows + static_cast<std::int64_t>(i) * vocabulary);
    }
  }
  return steps;
}

}  // namespace mneme
