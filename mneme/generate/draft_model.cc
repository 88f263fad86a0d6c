#include "mneme/generate/draft_model.h"

#include <algorithm>
#include <cmath>

#include "mneme/cache/presets.h"
#include "mneme/generate/common_prefix.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/processors.h"
#include "mneme/generate/sampler.h"
#include "mneme/models/ragged.h"

namespace mneme {
namespace {

constexpr std::int64_t kPiece = 256;  // tokens of a prompt that are read at a time

GenerationSettings for_drafts(GenerationSettings settings) {
  settings.options.logits_processors.clear();
  settings.options.guidance_scale.reset();
  return settings;
}

/// The likeliest token each time.
GenerationSettings greedy(const GenerationSettings& settings) {
  GenerationSettings plain;
  plain.options.cancelled = settings.options.cancelled;
  return plain;
}

std::vector<float> next_logits(const Model& model, std::span<const std::int64_t> ids, Cache& cache) {
  at::Tensor input = at::empty({1, std::ssize(ids)}, at::kLong);
  std::ranges::copy(ids, input.mutable_data_ptr<std::int64_t>());
  const at::Tensor logits = forward(model, {.input_ids = input, .logits_to_keep = 1}, cache).contiguous();
  const float* data = logits.const_data_ptr<float>();
  return {data, data + logits.numel()};
}

}  // namespace

DraftModel::DraftModel(const Model& model, double confidence, const GenerationSettings& settings)
    : model_(model),
      confidence_(confidence),
      settings_(for_drafts(settings)),
      processors_(make_processors(settings_, model.config().vocab_size)),
      cache_(DynamicCache(model.cache_shape())) {}

std::vector<std::int64_t> DraftModel::draft(const SequenceView& sequence, std::int64_t most) {
  held_.resize(static_cast<std::size_t>(keep_common_prefix(cache_, held_, sequence.tokens)));
  cache_.activate_past_recording();
  std::vector<std::int64_t> text(sequence.tokens.begin(), sequence.tokens.end());
  const std::size_t n_known = text.size();
  while (std::ssize(text) - std::ssize(held_) > kPiece) {
    if (settings_.options.cancelled && settings_.options.cancelled()) return {};
    const auto piece = std::span(text).subspan(held_.size(), kPiece);
    next_logits(model_, piece, cache_);
    held_.insert(held_.end(), piece.begin(), piece.end());
  }
  const std::int64_t longest = model_.config().max_position_embeddings;
  SequenceView view = sequence;
  while (std::ssize(text) < static_cast<std::int64_t>(n_known) + most && std::ssize(text) < longest) {
    std::vector<float> logits = next_logits(model_, std::span(text).subspan(held_.size()), cache_);
    held_ = text;
    view.tokens = text;
    const double norm = log_sum_exp(logits);
    const std::vector<float> raw = logits;
    for (const LogitsProcessor& process : processors_) process(logits, view);
    const auto stream = static_cast<std::uint64_t>(view.hypothesis), step = static_cast<std::uint64_t>(view.n_new());
    const std::int64_t id = settings_.do_sample ? draw(logits, uniform(settings_.seed, stream, step)) : argmax(logits);
    if (std::exp(raw[static_cast<std::size_t>(id)] - norm) < confidence_) break;
    text.push_back(id);
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(n_known), text.end()};
}

TranslatingDrafter::TranslatingDrafter(const Model& model, double confidence, const GenerationSettings& settings)
    : tokenizer_(*settings.options.tokenizer),
      assistant_tokenizer_(*settings.options.assistant_tokenizer),
      model_(model, confidence, greedy(settings)) {}

std::vector<std::int64_t> TranslatingDrafter::draft(const SequenceView& sequence, std::int64_t most) {
  // Models have rows for more ids than their tokenizers have tokens; those have no text.
  const auto has_text = [&](std::int64_t id) { return id < tokenizer_.vocab_size(); };
  if (!std::ranges::all_of(sequence.tokens, has_text)) return {};
  const EncodeOptions as_is{.add_special_tokens = false};
  std::vector<std::int64_t> ids = assistant_tokenizer_.encode(tokenizer_.decode(sequence.tokens), as_is);
  if (ids.empty()) return {};
  const std::string before = assistant_tokenizer_.decode(ids);
  const std::vector<std::int64_t> drafts = model_.draft({.tokens = ids, .prompt_length = std::ssize(ids)}, most);
  const auto end =
      std::ranges::find_if(drafts, [&](std::int64_t id) { return id >= assistant_tokenizer_.vocab_size(); });
  ids.insert(ids.end(), drafts.begin(), end);
  const std::string after = assistant_tokenizer_.decode(ids);
  if (!after.starts_with(before)) return {};
  std::vector<std::int64_t> result = tokenizer_.encode(after.substr(before.size()), as_is);
  result.resize(std::min(result.size(), static_cast<std::size_t>(most)));
  return result;
}

}  // namespace mneme
