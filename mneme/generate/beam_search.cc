#include "mneme/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "mneme/base/error.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/sampler.h"

namespace mneme {
namespace {

// Parity: what transformers adds to scores that are out. It shows where fewer beams than asked for can go on.
constexpr float kOut = -1e9f;

}  // namespace

BeamSearch::BeamSearch(Batch& batch, const GenerationSettings& settings, const GenerateOptions& options,
                       const Stopping& stopping, const std::vector<LogitsProcessor>& processors)
    : batch_(batch),
      settings_(settings),
      options_(options),
      stopping_(stopping),
      processors_(processors),
      n_beams_(settings.num_beams),
      // Enough that num_beams can go on even if every beam could end with each eos.
      n_candidates_(std::max<std::int64_t>(2, 1 + std::ssize(settings.eos_token_id)) * settings.num_beams) {
  const std::int64_t n_prompts = batch.size() / n_beams_;
  for (std::int64_t p = 0; p < n_prompts; ++p) {
    Prompt& prompt = prompts_.emplace_back();
    // All beams are one text at first: only one of them counts.
    prompt.scores.assign(static_cast<std::size_t>(n_beams_), kOut);
    prompt.scores[0] = 0;
    prompt.beam_indices.resize(static_cast<std::size_t>(n_beams_));
    prompt.logprobs.resize(static_cast<std::size_t>(n_beams_));
  }
  rows_.resize(static_cast<std::size_t>(batch.size()));
  next_ids_.resize(rows_.size());
}

std::vector<Hypothesis> BeamSearch::run() {
  std::vector<Sequence>& sequences = batch_.sequences();
  if (settings_.max_new_tokens == 0) {
    for (Prompt& prompt : prompts_) {
      prompt.done = true;
      prompt.ended.assign(static_cast<std::size_t>(n_beams_), {.finish_reason = "length"});
    }
  }
  while (true) {
    std::iota(rows_.begin(), rows_.end(), 0);
    if (options_.output_step_logits) step_logits_.push_back(batch_.logits().clone());
    for (std::int64_t p = 0; p < std::ssize(prompts_); ++p) {
      if (!prompts_[static_cast<std::size_t>(p)].done) advance(p);
    }
    if (options_.output_scores) step_scores_.push_back(batch_.logits().clone());  // processed in place
    if (std::ranges::all_of(prompts_, &Prompt::done)) break;
    batch_.reorder(rows_);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (prompts_[i / static_cast<std::size_t>(n_beams_)].done) {
        sequences[i].finish_reason = "done";
      } else {
        sequences[i].tokens.push_back(next_ids_[i]);
      }
    }
    batch_.step();
    ++n_steps_;
  }
  std::vector<Hypothesis> results;
  for (Prompt& prompt : prompts_) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(settings_.num_return_sequences); ++i) {
      check(i < prompt.ended.size(), ErrorKind::kFailedPrecondition,
            "beam search ended with {} texts where num_return_sequences = {} are asked for: what limits the choice of "
            "tokens leaves no more",
            prompt.ended.size(), settings_.num_return_sequences);
      results.push_back(std::move(prompt.ended[i]));
    }
  }
  return results;
}

void BeamSearch::advance(std::int64_t p) {
  Prompt& prompt = prompts_[static_cast<std::size_t>(p)];
  const std::int64_t n_new = batch_.sequences()[static_cast<std::size_t>(p * n_beams_)].n_new();
  const std::vector<float> accumulated = accumulated_scores(p);
  std::vector<Candidate> candidates = settings_.do_sample ? drawn(accumulated, n_new) : best(accumulated);
  check(!candidates.empty() || !prompt.ended.empty(), ErrorKind::kFailedPrecondition,
        "every token is banned after {} new tokens: what limits the choice excludes all of the vocabulary", n_new);
  const std::string reason_of_call = stopping_.reason_of_call();
  const std::int64_t vocabulary = std::ssize(accumulated) / n_beams_;
  for (Candidate& candidate : candidates) {
    if (!raw_.empty()) candidate.logprob = raw_[static_cast<std::size_t>(candidate.beam * vocabulary + candidate.id)];
    Sequence& parent = batch_.sequences()[static_cast<std::size_t>(p * n_beams_ + candidate.beam)];
    parent.tokens.push_back(candidate.id);
    candidate.finish_reason = stopping_.reason_of_text(parent);
    parent.tokens.pop_back();
    if (candidate.finish_reason.empty()) candidate.finish_reason = reason_of_call;
  }
  end(p, candidates);
  go_on(p, candidates);
  const bool all_end = std::ranges::none_of(candidates, [](const Candidate& c) { return c.finish_reason.empty(); });
  const bool full = std::ssize(prompt.ended) == n_beams_ && settings_.early_stopping == EarlyStopping::kTrue;
  prompt.done = all_end || full || !can_improve(prompt, n_new + 1);
}

/// [num_beams * V] log-probabilities of each text with each token behind it.
std::vector<float> BeamSearch::accumulated_scores(std::int64_t p) {
  const Prompt& prompt = prompts_[static_cast<std::size_t>(p)];
  std::vector<float> all;
  raw_.clear();
  for (std::int64_t b = 0; b < n_beams_; ++b) {
    const std::int64_t row = p * n_beams_ + b;
    const std::span<float> scores = batch_.logits_of(row);
    if (!settings_.options.remove_invalid_values.value_or(false)) check_finite(scores);
    log_softmax(scores);
    if (options_.output_logprobs) raw_.insert(raw_.end(), scores.begin(), scores.end());
    const SequenceView view = batch_.view(batch_.sequences()[static_cast<std::size_t>(row)]);
    for (const LogitsProcessor& process : processors_) process(scores, view);
    const float before = prompt.scores[static_cast<std::size_t>(b)];
    for (const float score : scores) all.push_back(score + before);
  }
  return all;
}

/// The likeliest candidates, best first; of equals the one of the better beam, then the lower id.
std::vector<BeamSearch::Candidate> BeamSearch::best(const std::vector<float>& accumulated) const {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < std::ssize(accumulated); ++i) {
    if (accumulated[static_cast<std::size_t>(i)] > kOut / 2) order.push_back(i);
  }
  const std::int64_t n = std::min(n_candidates_, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](std::int64_t a, std::int64_t b) {
    const float x = accumulated[static_cast<std::size_t>(a)], y = accumulated[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  const std::int64_t vocabulary = std::ssize(accumulated) / n_beams_;
  std::vector<Candidate> candidates;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = order[static_cast<std::size_t>(k)];
    candidates.push_back(
        {.beam = i / vocabulary, .id = i % vocabulary, .score = accumulated[static_cast<std::size_t>(i)]});
  }
  return candidates;
}

/// Candidates drawn one after another by their probability, without putting them back: the largest of log p plus
/// Gumbel noise. (Kool et al. 2019, arXiv:1903.06059)
std::vector<BeamSearch::Candidate> BeamSearch::drawn(const std::vector<float>& accumulated, std::int64_t n_new) const {
  std::vector<float> noisy = accumulated;
  for (std::size_t i = 0; i < noisy.size(); ++i) {
    if (!(noisy[i] > kOut / 2)) continue;
    const double u = uniform(settings_.seed, static_cast<std::uint64_t>(n_new), i);
    noisy[i] -= static_cast<float>(std::log(-std::log(std::max(u, std::numeric_limits<double>::min()))));
  }
  std::vector<Candidate> candidates = best(noisy);
  const std::int64_t vocabulary = std::ssize(accumulated) / n_beams_;
  for (Candidate& c : candidates) c.score = accumulated[static_cast<std::size_t>(c.beam * vocabulary + c.id)];
  return candidates;
}

/// Candidates that end are kept if they are among the first num_beams and better than what is kept already.
void BeamSearch::end(std::int64_t p, const std::vector<Candidate>& candidates) {
  Prompt& prompt = prompts_[static_cast<std::size_t>(p)];
  const std::size_t n_first = std::min(candidates.size(), static_cast<std::size_t>(n_beams_));
  for (std::size_t k = 0; k < n_first; ++k) {
    const Candidate& candidate = candidates[k];
    if (candidate.finish_reason.empty()) continue;
    const std::int64_t row = p * n_beams_ + candidate.beam;
    Hypothesis hypothesis{.tokens = batch_.sequences()[static_cast<std::size_t>(row)].new_tokens(),
                          .beam_indices = prompt.beam_indices[static_cast<std::size_t>(candidate.beam)],
                          .logprobs = prompt.logprobs[static_cast<std::size_t>(candidate.beam)],
                          .finish_reason = candidate.finish_reason};
    hypothesis.tokens.push_back(candidate.id);
    hypothesis.logprobs.push_back(candidate.logprob);
    hypothesis.beam_indices.push_back(row);
    const auto length = static_cast<double>(hypothesis.tokens.size());
    hypothesis.score = candidate.score / static_cast<float>(std::pow(length, settings_.length_penalty));
    const auto place =
        std::ranges::find_if(prompt.ended, [&](const Hypothesis& other) { return other.score < hypothesis.score; });
    prompt.ended.insert(place, std::move(hypothesis));
    if (std::ssize(prompt.ended) > n_beams_) prompt.ended.pop_back();
  }
}

/// The best candidates that do not end are the next beams. Where there are too few, the rest counts for nothing.
void BeamSearch::go_on(std::int64_t p, const std::vector<Candidate>& candidates) {
  Prompt& prompt = prompts_[static_cast<std::size_t>(p)];
  std::vector<Candidate> running;
  std::ranges::copy_if(candidates, std::back_inserter(running), &std::string::empty, &Candidate::finish_reason);
  std::ranges::stable_sort(running, std::greater<>(), &Candidate::score);
  running.resize(static_cast<std::size_t>(n_beams_), {.score = kOut});
  std::vector<std::vector<std::int64_t>> beam_indices;
  std::vector<std::vector<double>> logprobs;
  for (std::size_t b = 0; b < running.size(); ++b) {
    const std::int64_t row = p * n_beams_ + running[b].beam;
    const auto place = static_cast<std::size_t>(p * n_beams_) + b;
    rows_[place] = row;
    next_ids_[place] = running[b].id;
    prompt.scores[b] = running[b].score;
    beam_indices.push_back(prompt.beam_indices[static_cast<std::size_t>(running[b].beam)]);
    beam_indices.back().push_back(row);
    logprobs.push_back(prompt.logprobs[static_cast<std::size_t>(running[b].beam)]);
    logprobs.back().push_back(running[b].logprob);
  }
  prompt.beam_indices = std::move(beam_indices);
  prompt.logprobs = std::move(logprobs);
}

/// Whether the best running beam may still be better than the worst that is kept, by the heuristic of early_stopping.
bool BeamSearch::can_improve(const Prompt& prompt, std::int64_t n_new) const {
  if (std::ssize(prompt.ended) < n_beams_) return true;
  const bool longest = settings_.early_stopping == EarlyStopping::kNever && settings_.length_penalty > 0;
  const auto length = static_cast<double>(longest ? settings_.max_new_tokens : n_new);
  const float reachable = prompt.scores[0] / static_cast<float>(std::pow(length, settings_.length_penalty));
  return reachable > prompt.ended.back().score;
}

}  // namespace mneme
