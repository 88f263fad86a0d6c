#include "mneme/generate/seq2seq_lm.h"

#include <c10/core/InferenceMode.h>

#include <numeric>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/cache/presets.h"
#include "mneme/generate/generator.h"
#include "mneme/generate/prompts.h"
#include "mneme/models/registry.h"
#include "mneme/ops/linear.h"

namespace mneme {
namespace {

/// Caches of the kind that the settings ask for; a static one for the sources has room for just these.
EncoderDecoderCache make_caches(const Seq2SeqModel& model, const GenerationSettings& settings,
                                std::int64_t longest_source) {
  GenerationSettings of_sources = settings;
  if (settings.max_cache_len > 0) of_sources.max_cache_len = longest_source;
  return {make_cache(model.cache_shape(), settings), make_cache(model.cross_cache_shape(), of_sources)};
}

void encode_sources(const Seq2SeqModel& model, const std::vector<std::vector<std::int64_t>>& sources,
                    EncoderDecoderCache& cache) {
  std::vector<std::int64_t> ids, row_starts{0};
  for (const auto& source : sources) {
    ids.insert(ids.end(), source.begin(), source.end());
    row_starts.push_back(std::ssize(ids));
  }
  encode_into(model, {.ids = ids, .row_starts = row_starts}, cache);
}

}  // namespace

Seq2SeqLM::Seq2SeqLM(std::unique_ptr<const Seq2SeqModel> model, GenerationConfig generation_config)
    : model_(std::move(model)),
      config_{{model_->config(), model_->cache_shape()}, model_->cross_cache_shape()},
      generation_config_(std::move(generation_config)) {}

EncoderDecoderCache Seq2SeqLM::dynamic_cache() const {
  return {DynamicCache(config_), DynamicCache(config_.cross_cache_shape)};
}

ForwardOutput Seq2SeqLM::forward(const Seq2SeqInput& input, EncoderDecoderCache* cache) const {
  if (cache) return {mneme::forward(*model_, input, *cache)};
  EncoderDecoderCache scratch = dynamic_cache();
  return {mneme::forward(*model_, input, scratch)};
}

/// Parity: what generation_config.json leaves open may stand in config.json; without either, texts begin with bos.
std::int64_t Seq2SeqLM::decoder_start(const GenerateOptions& options) const {
  if (options.decoder_start_token_id) return *options.decoder_start_token_id;
  if (generation_config_.decoder_start_token_id) return *generation_config_.decoder_start_token_id;
  const std::int64_t of_config = json_int(config_.raw, "decoder_start_token_id", -1, config_.name);
  if (of_config >= 0) return of_config;
  check(generation_config_.bos_token_id.has_value(), ErrorKind::kInvalidArgument,
        "{}: neither decoder_start_token_id nor bos_token_id is set; give decoder_input_ids", config_.name);
  return *generation_config_.bos_token_id;
}

/// The likeliest of all languages as the first token behind the start, for each sequence.
std::vector<std::int64_t> Seq2SeqLM::heard_languages(const SpeechPrompt& prompt, const Cache& cross) const {
  const BoundDecoder decoder(*model_, cross);
  Cache past = DynamicCache(config_);
  const at::Tensor start = at::full({cross.n_sequences(), 1}, prompt.ids.front(), at::kLong);
  const at::Tensor logits = mneme::forward(decoder, {.input_ids = start, .logits_to_keep = 1}, past).flatten(0, 1);
  const at::Tensor best = logits.index_select(1, at::tensor(prompt.languages, at::kLong)).argmax(1);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < best.size(0); ++i)
    ids.push_back(prompt.languages[static_cast<std::size_t>(best[i].item<std::int64_t>())]);
  return ids;
}

GenerateOutput Seq2SeqLM::generate(const Seq2SeqInput& input, const GenerateOptions& options,
                                   EncoderDecoderCache* cache) const {
  const c10::InferenceMode inference;
  check_cache_choice(options, cache != nullptr);
  check(!options.output_hidden_states, ErrorKind::kUnsupported,
        "output_hidden_states: {} is an encoder-decoder, whose hidden states are not kept; leave it off", config_.name);
  const at::Tensor& features = input.input_features;
  check(cache || input.input_ids.defined() || features.defined(), ErrorKind::kInvalidArgument, "no prompt was given");
  check_source_kind(input, *model_);
  check(model_->features() || (!options.language && !options.task), ErrorKind::kInvalidArgument,
        "language and task are for speech models, {} reads text; leave them out", config_.name);
  if (cache) check_source(input, *cache);
  std::vector<std::vector<std::int64_t>> sources;
  if (input.input_ids.defined()) sources = real_ids(input.input_ids, input.attention_mask);
  for (const auto& source : sources) check_prompt(source, config_);
  const std::int64_t n = cache && cache->is_written() ? cache->n_sequences()
                         : features.defined()         ? features.size(0)
                                                      : std::ssize(sources);
  check(n > 0, ErrorKind::kInvalidArgument, "no prompt was given");

  at::Tensor first_ids = input.decoder_input_ids;
  std::optional<SpeechPrompt> speech;
  if (!first_ids.defined() && model_->features()) {
    check(!input.decoder_attention_mask.defined(), ErrorKind::kInvalidArgument,
          "a decoder_attention_mask was given without decoder_input_ids");
    speech = speech_prompt(decoder_start(options), options, generation_config_, config_);
    first_ids = at::tensor(speech->ids, at::kLong).repeat({n, 1});
  } else if (!first_ids.defined()) {
    const at::Device device = input.input_ids.defined() ? input.input_ids.device() : at::Device(at::kCPU);
    first_ids = at::full({n, 1}, decoder_start(options), at::TensorOptions().dtype(at::kLong).device(device));
  }
  std::vector<PromptTokens> prompts =
      prompts_of({.input_ids = first_ids, .attention_mask = input.decoder_attention_mask}, config_, device());
  check(std::ssize(prompts) == n, ErrorKind::kInvalidArgument,
        "{} sequences of decoder_input_ids were given for {} prompts; there must be one for each", prompts.size(), n);
  const GenerationSettings settings = resolve(options, generation_config_, longest(prompts), n);

  std::optional<EncoderDecoderCache> own;
  if (!cache) {
    const std::int64_t n_states = model_->features() ? model_->features()->n_states : longest(sources);
    cache = &own.emplace(make_caches(*model_, settings, n_states));
  } else if (settings.n_hypotheses() > 1) {
    cache = &own.emplace(cache->copy());  // sequences will be multiplied: the caller's stays as it is
  }
  Cache& cross = cache->cross_attention_cache();
  check_fits(model_->cross_cache_shape(), cross);
  const Cache::Use use(cross);
  const bool was_written = cache->is_written();
  const auto encode = [&] {
    if (cache->is_written()) return;
    if (!features.defined()) return encode_sources(*model_, sources, *cache);
    encode_into(*model_, embedded_features(*model_, features, cross.workspace()).batch(), *cache);
  };
  if (speech && speech->language_at) {
    encode();
    const std::vector<std::int64_t> heard = heard_languages(*speech, cross);
    const auto at = static_cast<std::int64_t>(*speech->language_at);
    first_ids.select(1, at).copy_(at::tensor(heard, at::kLong));
    for (std::size_t i = 0; i < heard.size(); ++i) prompts[i].ids[*speech->language_at] = heard[i];
  }
  const BoundDecoder decoder(*model_, cross);
  Generator generator = [&] {
    try {
      return Generator(decoder, settings, options, std::move(prompts), &cache->self_attention_cache(), &cross);
    } catch (...) {
      if (!was_written) cache->reset();  // what was heard to know the language
      throw;
    }
  }();
  generator.set_sources(sources.empty() ? std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(n))
                                        : sources);
  encode();

  const std::vector<std::int64_t> lengths = cache->cross_lengths();
  GenerateOutput output = generator.run();
  const std::int64_t n_encoded = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  output.prompt_tokens += n_encoded;
  if (was_written) output.cached_tokens += n_encoded;
  output.cache_bytes += cross.n_bytes();
  output.cache_bytes_offloaded += cross.n_bytes_offloaded();
  output.sequences = joined(first_ids, output.new_tokens, settings.pad_token_id);
  return output;
}

std::shared_ptr<const Seq2SeqLM> AutoModelForSeq2SeqLM::from_pretrained(const std::string& path,
                                                                        const LoadOptions& options) {
  const c10::InferenceMode inference;
  std::unique_ptr<const Seq2SeqModel> model = load_seq2seq_model(path, arithmetic_of(options.dtype), options.device);
  GenerationConfig generation = GenerationConfig::from_pretrained(path, model->config());
  return std::make_shared<const Seq2SeqLM>(std::move(model), std::move(generation));
}

}  // namespace mneme
