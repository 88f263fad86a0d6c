#include "mneme/generate/processors.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "mneme/base/error.h"
#include "mneme/generate/guidance.h"
#include "mneme/generate/json_constraint.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/penalties.h"
#include "mneme/generate/warpers.h"
#include "mneme/generate/watermark.h"

namespace mneme {
namespace {

using Scores = std::span<float>;
using Processors = std::vector<LogitsProcessor>;

void check_known(const char* name, Ids ids, std::int64_t vocab_size) {
  for (const std::int64_t id : ids) {
    check(id < vocab_size, ErrorKind::kInvalidArgument, "{}: token id {} is outside the vocabulary of {}", name, id,
          vocab_size);
  }
}

/// Bad words as biases. Parity: an eos alone is none.
std::vector<SequenceBias> bad_words(const GenerationSettings& s, std::int64_t vocab_size) {
  std::vector<SequenceBias> biases;
  for (const auto& word : *s.options.bad_words_ids) {
    check_known("bad_words_ids", word, vocab_size);
    const bool is_eos = word.size() == 1 && std::ranges::find(s.eos_token_id, word[0]) != s.eos_token_id.end();
    if (!is_eos) biases.push_back({word, -std::numeric_limits<double>::infinity()});
  }
  return biases;
}

void add_penalties(Processors& list, const GenerationSettings& s, std::int64_t vocab_size) {
  const GenerateOptions& o = s.options;
  const auto add = [&](LogitsProcessor processor) { list.push_back(std::move(processor)); };
  if (o.sequence_bias && !o.sequence_bias->empty()) {
    for (const SequenceBias& biased : *o.sequence_bias) check_known("sequence_bias", biased.ids, vocab_size);
    add([&o](Scores scores, const SequenceView& at) { bias_sequences(scores, at.tokens, *o.sequence_bias); });
  }
  if (const double p = o.encoder_repetition_penalty.value_or(1); p != 1)
    add([p](Scores scores, const SequenceView& at) { penalize_repetition(scores, at.source, 1 / p); });
  if (const double p = o.repetition_penalty.value_or(1); p != 1)
    add([p](Scores scores, const SequenceView& at) { penalize_repetition(scores, at.tokens, p); });
  if (const std::int64_t n = o.no_repeat_ngram_size.value_or(0); n > 0)
    add([n](Scores scores, const SequenceView& at) { ban_ngrams(scores, at.tokens, at.tokens, n); });
  if (const std::int64_t n = o.encoder_no_repeat_ngram_size.value_or(0); n > 0)
    add([n](Scores scores, const SequenceView& at) { ban_ngrams(scores, at.tokens, at.source, n); });
  if (o.bad_words_ids && !o.bad_words_ids->empty()) {
    add([biases = bad_words(s, vocab_size)](Scores scores, const SequenceView& at) {
      bias_sequences(scores, at.tokens, biases);
    });
  }
}

void add_lengths(Processors& list, const GenerationSettings& s) {
  const auto add = [&](LogitsProcessor processor) { list.push_back(std::move(processor)); };
  const std::int64_t min_length = s.options.min_length.value_or(0);
  if (s.eos_token_id.empty() || (min_length == 0 && s.min_new_tokens == 0)) return;
  add([&s, min_length](Scores scores, const SequenceView& at) {
    if (at.n_without_ids + std::ssize(at.tokens) < min_length || at.n_new() < s.min_new_tokens)
      ban(scores, s.eos_token_id);
  });
}

void add_constraints(Processors& list, const GenerationSettings& s, std::int64_t vocab_size) {
  const GenerateOptions& o = s.options;
  const auto add = [&](LogitsProcessor processor) { list.push_back(std::move(processor)); };
  if (o.prefix_allowed_tokens_fn) {
    add([&o, alone = s.num_beams == 1](Scores scores, const SequenceView& at) {
      const std::vector<std::int64_t> allowed = o.prefix_allowed_tokens_fn(at.prompt, at.tokens);
      check(!allowed.empty(), ErrorKind::kInvalidArgument,
            "prefix_allowed_tokens_fn allows no token after {} tokens of prompt {}: its constraint cannot be met",
            at.tokens.size(), at.prompt);
      allow_only(scores, allowed, /*force_if_banned=*/alone);
    });
  }
  if (o.json_constraint) {
    check(!s.eos_token_id.empty(), ErrorKind::kInvalidArgument,
          "a JSON schema needs an eos_token_id to end the text with, and there is none");
    add(o.json_constraint->processor(s.eos_token_id));
  }
  if (o.forced_bos_token_id) {
    check_known("forced_bos_token_id", Ids(&*o.forced_bos_token_id, 1), vocab_size);
    add([&o](Scores scores, const SequenceView& at) {
      if (at.tokens.size() == 1) force(scores, Ids(&*o.forced_bos_token_id, 1));
    });
  }
  if (o.forced_eos_token_id && !o.forced_eos_token_id->empty()) {
    check_known("forced_eos_token_id", *o.forced_eos_token_id, vocab_size);
    add([&s](Scores scores, const SequenceView& at) {
      if (at.n_new() == s.max_new_tokens - 1) force(scores, *s.options.forced_eos_token_id);
    });
  }
  if (o.remove_invalid_values.value_or(false)) add([](Scores scores, const SequenceView&) { remove_invalid(scores); });
  if (o.exponential_decay_length_penalty && !s.eos_token_id.empty()) {
    add([&s, decay = *o.exponential_decay_length_penalty](Scores scores, const SequenceView& at) {
      if (at.n_new() > decay.start) favour(scores, s.eos_token_id, decay.factor, at.n_new() - decay.start);
    });
  }
  if (o.suppress_tokens && !o.suppress_tokens->empty())
    add([&o](Scores scores, const SequenceView&) { ban(scores, *o.suppress_tokens); });
  if (o.begin_suppress_tokens && !o.begin_suppress_tokens->empty()) {
    add([&o](Scores scores, const SequenceView& at) {
      // Parity: a forced bos does not count as the beginning.
      const std::int64_t first = at.prompt_length > 1 || !o.forced_bos_token_id ? 0 : 1;
      if (at.n_new() == first) ban(scores, *o.begin_suppress_tokens);
    });
  }
}

void add_warpers(Processors& list, const GenerationSettings& s) {
  const GenerateOptions& o = s.options;
  const std::int64_t keep = s.num_beams > 1 ? std::max<std::int64_t>(2, std::ssize(s.eos_token_id) + 1) : 1;
  const auto add = [&](bool wanted, auto warp) {
    if (wanted) list.push_back([warp](Scores scores, const SequenceView&) { warp(scores); });
  };
  const double temperature = o.temperature.value_or(1), top_p = o.top_p.value_or(1), min_p = o.min_p.value_or(0),
               typical = o.typical_p.value_or(1), epsilon = o.epsilon_cutoff.value_or(0),
               eta = o.eta_cutoff.value_or(0);
  const std::int64_t top_k = o.top_k.value_or(0);
  add(temperature != 1, [=](Scores x) { apply_temperature(x, temperature); });
  add(o.top_h.has_value(), [top_h = o.top_h.value_or(1)](Scores x) { keep_top_h(x, top_h); });
  add(top_k > 0, [=](Scores x) { keep_top_k(x, top_k, keep); });
  add(top_p < 1, [=](Scores x) { keep_top_p(x, top_p, keep); });
  add(min_p > 0, [=](Scores x) { keep_min_p(x, min_p, keep); });
  add(typical < 1, [=](Scores x) { keep_typical(x, typical, keep); });
  add(epsilon > 0 && epsilon < 1, [=](Scores x) { cut_epsilon(x, epsilon, keep); });
  add(eta > 0 && eta < 1, [=](Scores x) { cut_eta(x, eta, keep); });
}

}  // namespace

std::vector<LogitsProcessor> make_processors(const GenerationSettings& settings, std::int64_t vocab_size) {
  const GenerateOptions& o = settings.options;
  Processors list;
  add_penalties(list, settings, vocab_size);
  add_lengths(list, settings);
  add_constraints(list, settings, vocab_size);
  list.insert(list.end(), o.logits_processors.begin(), o.logits_processors.end());
  if (settings.do_sample) add_warpers(list, settings);
  if (o.watermarking_config) {
    const auto mark = std::make_shared<const Watermark>(*o.watermarking_config, vocab_size);
    list.push_back([mark](Scores scores, const SequenceView& at) { mark->apply(scores, at.tokens); });
  }
  if (o.renormalize_logits.value_or(false))
    list.push_back([](Scores scores, const SequenceView&) { log_softmax(scores); });
  return list;
}

std::vector<LogitsProcessor> make_processors(const GenerationSettings& settings, const Model& model) {
  Processors list = make_processors(settings, model.config().vocab_size);
  const double scale = settings.options.guidance_scale.value_or(1);
  if (scale != 1) {
    const auto guidance = std::make_shared<Guidance>(model, scale, settings.options.negative_prompt_ids);
    list.insert(list.begin(), [guidance](Scores scores, const SequenceView& at) { guidance->apply(scores, at); });
  }
  return list;
}

}  // namespace mneme
