#include "mneme/generate/generator.h"

#include <algorithm>
#include <limits>

#include "mneme/base/log.h"
#include "mneme/generate/beam_search.h"
#include "mneme/generate/drafter.h"
#include "mneme/generate/processors.h"

namespace mneme {

Generator::Generator(const Model& model, const GenerationSettings& settings, const GenerateOptions& options,
                     std::vector<PromptTokens> prompts, Cache* cache, Cache* cross)
    : settings_(settings),
      options_(options),
      stopping_(settings, options),
      batch_(model, settings, options, std::move(prompts), cache, cross),
      processors_(make_processors(settings, model)),
      chooser_(settings, options, processors_, output_) {}

GenerateOutput Generator::run() {
  Cache& cache = batch_.cache();
  const Cache::Use use(cache);
  output_.seed = settings_.seed;
  output_.min_gap = std::numeric_limits<float>::infinity();
  const bool prefilled_all = batch_.prefill();
  const double prefilled = stopping_.seconds();
  output_.prefill_ms = prefilled * 1e3;
  if (prefilled_all && options_.output_logits) output_.prompt_logits = batch_.logits().clone();
  if (!prefilled_all) {
    batch_.multiply(settings_.num_return_sequences);
    for (Sequence& s : batch_.sequences()) s.finish_reason = "cancelled";
    take_sequences();
  } else if (settings_.num_beams > 1) {
    search();
  } else {
    settings_.drafts() ? speculate() : decode();
    take_sequences();
  }
  output_.hidden_states = batch_.states().take();
  output_.decode_ms = (stopping_.seconds() - prefilled) * 1e3;
  output_.plans_built = batch_.n_plans();
  output_.plan_replays = batch_.n_replays();
  output_.prompt_tokens = batch_.prompt_tokens();
  output_.cached_tokens = batch_.cached_tokens();
  output_.cache_implementation = settings_.use_cache ? cache.implementation() : "none";
  output_.cache_length = cache.seq_length();
  output_.cache_bytes = cache.n_bytes();
  output_.cache_bytes_offloaded = cache.n_bytes_offloaded();
  return std::move(output_);
}

void Generator::add(Sequence& sequence, std::int64_t index, std::int64_t id) {
  sequence.tokens.push_back(id);
  if (options_.on_token) options_.on_token(index, id);
  sequence.finish_reason = stopping_.reason(sequence);
  const std::int64_t most = batch_.model().config().max_position_embeddings;
  if (sequence.length() == most + 1 && !sequence.finished()) {
    warn(
        fmt::format("the text goes on past the {} tokens that the model was made for (max_position_embeddings); what "
                    "follows may make little sense",
                    most));
  }
}

/// Greedy choice and sampling.
void Generator::decode() {
  batch_.multiply(settings_.num_return_sequences);
  std::vector<Sequence>& sequences = batch_.sequences();
  if (settings_.max_new_tokens == 0) {
    for (Sequence& s : sequences) s.finish_reason = "length";
  }
  while (true) {
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (sequences[i].finished()) continue;
      const auto index = static_cast<std::int64_t>(i);
      add(sequences[i], index, chooser_.choose(batch_.logits_of(index), sequences[i], batch_.view(sequences[i])));
    }
    if (std::ranges::all_of(sequences, &Sequence::finished)) return;
    batch_.step();
    ++output_.decode_steps;
  }
}

/// The same with tokens guessed ahead: one pass reads them all, and those stay that are what the model chooses.
void Generator::speculate() {
  Sequence& sequence = batch_.sequences().front();
  const auto drafter = make_drafter(settings_);
  const auto choose = [&](std::span<float> logits) {
    const std::int64_t id = chooser_.choose(logits, sequence, batch_.view(sequence));
    add(sequence, 0, id);
    return id;
  };
  if (settings_.max_new_tokens == 0) {
    sequence.finish_reason = "length";
    return;
  }
  choose(batch_.logits_of(0));
  while (!sequence.finished()) {
    const std::int64_t room = settings_.max_new_tokens - sequence.n_new() - 1;
    const std::int64_t most = std::min(room, draft_length(settings_));
    const std::vector<std::int64_t> drafts =
        most > 0 ? drafter->draft(batch_.view(sequence), most) : std::vector<std::int64_t>();
    at::Tensor logits = batch_.read_ahead(drafts);
    ++output_.decode_steps;
    output_.draft_tokens += std::ssize(drafts);
    for (std::size_t k = 0; k <= drafts.size() && !sequence.finished(); ++k) {
      const at::Tensor row = logits.select(0, static_cast<std::int64_t>(k));
      const std::int64_t id = choose({row.mutable_data_ptr<float>(), static_cast<std::size_t>(row.numel())});
      if (k == drafts.size() || id != drafts[k]) break;
      ++output_.accepted_tokens;
    }
    batch_.keep();
  }
}

/// Beams are known at the end only, so that is when their tokens are streamed.
void Generator::search() {
  batch_.multiply(settings_.num_beams);
  BeamSearch beams(batch_, settings_, options_, stopping_, processors_);
  for (Hypothesis& hypothesis : beams.run()) {
    for (const std::int64_t id : hypothesis.tokens) {
      if (options_.on_token) options_.on_token(std::ssize(output_.new_tokens), id);
    }
    output_.new_tokens.push_back(std::move(hypothesis.tokens));
    output_.finish_reasons.push_back(std::move(hypothesis.finish_reason));
    output_.sequences_scores.push_back(hypothesis.score);
    output_.beam_indices.push_back(std::move(hypothesis.beam_indices));
    if (options_.output_logprobs) output_.token_logprobs.push_back(std::move(hypothesis.logprobs));
  }
  output_.logits = beams.step_logits();
  output_.scores = beams.step_scores();
  output_.decode_steps = beams.n_steps();
}

void Generator::take_sequences() {
  std::vector<Sequence>& sequences = batch_.sequences();
  const std::int64_t vocabulary = batch_.logits().size(1);
  output_.logits = steps_of(sequences, &Sequence::logits, vocabulary);
  output_.scores = steps_of(sequences, &Sequence::scores, vocabulary);
  for (Sequence& s : sequences) {
    output_.new_tokens.push_back(s.new_tokens());
    output_.finish_reasons.push_back(s.finish_reason);
    if (options_.output_logprobs) output_.token_logprobs.push_back(std::move(s.logprobs));
  }
}

}  // namespace mneme
