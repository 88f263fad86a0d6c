#include "mneme/tasks/nll.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "mneme/base/error.h"
#include "mneme/generate/cache_options.h"
#include "mneme/generate/logits.h"
#include "mneme/tasks/loaded.h"

namespace mneme::tasks {
namespace {

using Ids = std::span<const std::int64_t>;

/// -log softmax(logits)[id] = log sum_j exp(x_j - max) + max - x_id, in double precision.
double surprise(std::span<const float> logits, std::int64_t id) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float x : logits) total += std::exp(x - top);
  return std::log(total) + top - logits[static_cast<std::size_t>(id)];
}

/// Feeds a text to a model, with or without a cache. A row of logits is the same bits however the text is cut into
/// chunks, so it is cut for speed.
class Reader {
 public:
  Reader(const CausalLM& model, const GenerationSettings& settings) : model_(model), settings_(settings) {
    if (settings.use_cache) cache_.emplace(model.config(), cache_options_of(settings));
  }

  /// ids [0, end) of a text of which [0, begin) were fed before; the logits after each of the last n: [n, vocabulary].
  at::Tensor feed(Ids text, std::size_t begin, std::size_t end, std::size_t n) {
    if (!cache_) begin = 0;
    const at::Tensor input = at::tensor(at::IntArrayRef(text.data() + begin, end - begin), at::kLong).unsqueeze(0);
    const auto logits = model_.forward({.input_ids = input, .logits_to_keep = static_cast<std::int64_t>(n)},
                                       cache_ ? &*cache_ : nullptr);
    return logits.logits.to(at::kCPU).view({static_cast<std::int64_t>(n), -1}).contiguous();
  }
  /// The same in chunks, for no logits.
  void skip(Ids text, std::size_t end) {
    const auto chunk = static_cast<std::size_t>(settings_.prefill_chunk_size);
    for (std::size_t begin = 0; cache_ && begin < end; begin += chunk)
      feed(text, begin, std::min(begin + chunk, end), 1);
  }

 private:
  const CausalLM& model_;
  const GenerationSettings& settings_;
  std::optional<Cache> cache_;
};

}  // namespace

Json nll(const NllRequest& request) {
  GenerateOptions options = request.cache;
  options.cache_config = cache_config_of(request.cache_config);
  check_values(options);
  check(request.prefill >= 1 && request.prefill <= INT32_MAX, ErrorKind::kInvalidArgument,
        "prefill must be 1 to 2^31-1, it is {}", request.prefill);
  const bool is_text = std::holds_alternative<std::string>(request.text);
  const Loaded loaded = load(request.model, is_text ? TokenizerNeed::kRequired : TokenizerNeed::kOptional);
  check(loaded.causal() != nullptr, ErrorKind::kUnsupported,
        "{} is an encoder-decoder; nll scores what a causal language model reads", loaded.name);
  const CausalLM& model = *loaded.causal();
  const std::vector<std::int64_t> ids = ids_of(request.text, loaded);
  const std::int64_t n_ids = std::ssize(ids);
  check(request.prefill <= n_ids - 2, ErrorKind::kInvalidArgument,
        "a prefill of {} leaves nothing to score in a text of {} tokens; give a text of {} or more", request.prefill,
        n_ids, request.prefill + 2);
  const ModelConfig& config = model.config();
  for (const std::int64_t id : ids) {
    check(id >= 0 && id < config.vocab_size, ErrorKind::kInvalidArgument, "token id {} is outside the vocabulary of {}",
          id, config.vocab_size);
  }
  check(n_ids <= config.max_position_embeddings, ErrorKind::kInvalidArgument,
        "a text of {} tokens is longer than the model's max_position_embeddings = {}", n_ids,
        config.max_position_embeddings);

  options.max_new_tokens = n_ids - 1 - request.prefill;  // the last one is scored, not read
  const GenerationSettings settings = resolve(options, {}, request.prefill, 1);
  Reader reader(model, settings);
  const auto n_prefill = static_cast<std::size_t>(request.prefill);
  reader.skip(ids, n_prefill);
  double total = 0;
  constexpr std::size_t kRows = 64;  // of logits at a time: 12 MB for a vocabulary of 49,152
  for (std::size_t begin = n_prefill; begin + 1 < ids.size(); begin += kRows) {
    const std::size_t end = std::min(begin + kRows, ids.size() - 1), n = end - begin;
    const at::Tensor logits = reader.feed(ids, begin, end, n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::span<const float> row(logits.const_data_ptr<float>() + static_cast<std::int64_t>(i) * logits.size(1),
                                       static_cast<std::size_t>(logits.size(1)));
      check_finite(row);
      total += surprise(row, ids[begin + i + 1]);
    }
  }
  const std::int64_t n_scored = n_ids - 1 - request.prefill;
  return {{"nll", total / static_cast<double>(n_scored)}, {"tokens", n_scored}};
}

}  // namespace mneme::tasks
