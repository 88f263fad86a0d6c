#include "mneme/generate/guidance.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/cache/presets.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/prompts.h"
#include "mneme/models/ragged.h"

namespace mneme {

Guidance::Guidance(const Model& model, double scale, std::vector<std::vector<std::int64_t>> negative_prompts)
    : model_(model), scale_(scale), negative_prompts_(std::move(negative_prompts)) {
  for (const auto& prompt : negative_prompts_) check_prompt(prompt, model.config());
}

std::vector<float> Guidance::unconditional(const SequenceView& sequence) {
  std::vector<std::int64_t> text;
  const auto prompt = sequence.tokens.first(static_cast<std::size_t>(sequence.prompt_length));
  if (negative_prompts_.empty()) {
    check(
        !prompt.empty(), ErrorKind::kInvalidArgument,
        "guidance_scale leads away from the prompt's last id, and inputs_embeds came without ids; give input_ids too, "
        "or negative_prompt_ids");
    text.push_back(prompt.back());
  } else {
    check(sequence.prompt < std::ssize(negative_prompts_), ErrorKind::kInvalidArgument,
          "{} negative prompts were given for more prompts; give one for each", negative_prompts_.size());
    text = negative_prompts_[static_cast<std::size_t>(sequence.prompt)];
  }
  text.insert(text.end(), sequence.tokens.begin() + sequence.prompt_length, sequence.tokens.end());

  Text& known = texts_[{sequence.prompt, sequence.hypothesis}];
  const bool goes_on = known.tokens.size() < text.size() &&
                       std::equal(known.tokens.begin(), known.tokens.end(), text.begin()) && known.cache;
  if (!goes_on) {
    known.cache.emplace(DynamicCache(model_.cache_shape()));
    known.tokens.clear();
  }
  at::Tensor ids = at::empty({1, std::ssize(text) - std::ssize(known.tokens)}, at::kLong);
  std::copy(text.begin() + std::ssize(known.tokens), text.end(), ids.mutable_data_ptr<std::int64_t>());
  const at::Tensor logits = forward(model_, {.input_ids = ids, .logits_to_keep = 1}, *known.cache).contiguous();
  known.tokens = std::move(text);
  const float* data = logits.const_data_ptr<float>();
  return {data, data + logits.numel()};
}

void Guidance::apply(std::span<float> scores, const SequenceView& sequence) {
  log_softmax(scores);
  std::vector<float> away = unconditional(sequence);
  log_softmax(away);
  const auto scale = static_cast<float>(scale_);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = scale * (scores[i] - away[i]) + away[i];
}

}  // namespace mneme
