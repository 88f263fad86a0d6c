#include "mneme/tasks/generate.h"

#include <algorithm>
#include <deque>

#include "mneme/audio/wav.h"
#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/generate/auto_feature_extractor.h"
#include "mneme/generate/json_constraint.h"
#include "mneme/generate/streamer.h"
#include "mneme/tasks/loaded.h"
#include "mneme/tasks/prompt_cache.h"

namespace mneme::tasks {
namespace {

/// The text of each sequence's new tokens, in whole characters as they come.
class Texts {
 public:
  Texts(const Tokenizer& tokenizer, const GenerateEvents& events) : tokenizer_(tokenizer), events_(events) {}

  void put(std::int64_t sequence, std::int64_t id) {
    while (std::ssize(streamers_) <= sequence) add();
    streamers_[static_cast<std::size_t>(sequence)].put(id);
  }

  Json finish(std::size_t n_sequences) {
    while (streamers_.size() < n_sequences) add();
    for (TextStreamer& streamer : streamers_) streamer.end();
    return texts_;
  }

 private:
  void add() {
    streamers_.emplace_back(tokenizer_, [this, i = texts_.size()](std::string_view piece) {
      texts_[i] += piece;
      if (events_.on_text) events_.on_text(static_cast<std::int64_t>(i), piece);
    });
    texts_.emplace_back();
  }

  const Tokenizer& tokenizer_;
  const GenerateEvents& events_;
  std::vector<std::string> texts_;
  std::deque<TextStreamer> streamers_;
};

std::vector<std::int64_t> chat_ids(const std::string& message, const TextTokenizer& tokenizer) {
  const std::string text =
      tokenizer.apply_chat_template({{.role = "user", .content = message}}, {.add_generation_prompt = true});
  return tokenizer.tokenizer().encode(text, {.add_special_tokens = false});  // the template has written its BOS
}

void warn_of_second_bos(const std::vector<std::int64_t>& ids, const Tokenizer& tokenizer) {
  const SpecialToken* bos = tokenizer.bos();
  if (bos && ids.size() > 1 && ids[0] == bos->id && ids[1] == bos->id) {
    warn(fmt::format("the prompt starts with {0} and the tokenizer adds another {0}; leave it out of the text",
                     bos->text));
  }
}

std::vector<std::vector<std::int64_t>> ids_of_prompts(const GenerateRequest& request, const Loaded& loaded) {
  std::vector<std::vector<std::int64_t>> result;
  for (const Prompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    if (text && request.chat) {
      result.push_back(chat_ids(*text, *loaded.tokenizer));
      continue;
    }
    result.push_back(ids_of(prompt, loaded));
    if (text) warn_of_second_bos(result.back(), loaded.tokenizer->tokenizer());
  }
  return result;
}

/// Prompts, or sounds that stand for them.
std::size_t n_prompts_of(const GenerateRequest& request) {
  return request.audio.empty() ? request.prompts.size() : request.audio.size();
}

/// One for each prompt.
std::vector<std::vector<std::int64_t>> decoder_prompts(const GenerateRequest& request) {
  const std::size_t n = request.decoder_prompts.size(), n_prompts = n_prompts_of(request);
  check(n == 1 || n == n_prompts, ErrorKind::kInvalidArgument,
        "{} lists of decoder ids were given for {} prompts; give one for each, or one for all", n, n_prompts);
  if (n == n_prompts) return request.decoder_prompts;
  return std::vector<std::vector<std::int64_t>>(n_prompts, request.decoder_prompts.front());
}

/// The rectangle that generate() takes, padded on the left.
EncodedInputs padded(const std::vector<std::vector<std::int64_t>>& rows) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  const auto n_rows = std::ssize(rows), n_columns = static_cast<std::int64_t>(longest);
  EncodedInputs inputs{.input_ids = at::zeros({n_rows, n_columns}, at::kLong),
                       .attention_mask = at::zeros({n_rows, n_columns}, at::kLong)};
  for (std::int64_t i = 0; i < n_rows; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i)];
    const std::int64_t first = n_columns - std::ssize(row);
    std::copy(row.begin(), row.end(), inputs.input_ids.mutable_data_ptr<std::int64_t>() + i * n_columns + first);
    inputs.attention_mask.select(0, i).narrow(0, first, std::ssize(row)).fill_(1);
  }
  return inputs;
}

double per_second(std::int64_t n, double ms) { return n > 0 && ms > 0 ? static_cast<double>(n) * 1e3 / ms : 0.0; }

Json rows_of(const at::Tensor& logits) {
  Json rows = Json::array();
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    const float* row = logits.const_data_ptr<float>() + i * logits.size(1);
    rows.push_back(std::vector<float>(row, row + logits.size(1)));
  }
  return rows;
}

DType dtype_of(const Loaded& loaded) {
  return loaded.causal() ? loaded.causal()->model().dtype() : loaded.seq2seq()->model().dtype();
}

/// What the sequences begin with: the prompts, or what the decoder starts from.
std::vector<std::vector<std::int64_t>> first_ids(const GenerateRequest& request, const GenerateOutput& output,
                                                 const std::vector<std::vector<std::int64_t>>& prompts,
                                                 const Loaded& loaded) {
  if (loaded.causal()) return prompts;
  if (!request.decoder_prompts.empty()) return decoder_prompts(request);
  std::size_t n_new = 0;  // the rest of a row
  for (const auto& ids : output.new_tokens) n_new = std::max(n_new, ids.size());
  const std::int64_t n_first = output.sequences.size(1) - static_cast<std::int64_t>(n_new);
  const std::int64_t n_each = output.sequences.size(0) / static_cast<std::int64_t>(n_prompts_of(request));
  std::vector<std::vector<std::int64_t>> result;
  for (std::int64_t i = 0; i < output.sequences.size(0); i += n_each) {
    const at::Tensor row = output.sequences[i].contiguous();
    result.emplace_back(row.const_data_ptr<std::int64_t>(), row.const_data_ptr<std::int64_t>() + n_first);
  }
  return result;
}

/// What a speech model hears. Throws Error(kInvalidArgument) for sound and text together, and for either where the
/// model reads the other.
at::Tensor heard(const GenerateRequest& request, const Loaded& loaded) {
  const bool hears = loaded.seq2seq() && loaded.seq2seq()->model().features();
  check(hears || request.audio.empty(), ErrorKind::kInvalidArgument,
        "{} reads text, no sound; use --prompt TEXT instead of --audio", loaded.name);
  check(!hears || request.prompts.empty(), ErrorKind::kInvalidArgument,
        "{} hears sound, it reads no text; use --audio FILE instead of --prompt and --ids", loaded.name);
  check(loaded.seq2seq() || (!request.options.language && !request.options.task), ErrorKind::kInvalidArgument,
        "--language and --task are for speech models, {} reads text; leave them out", loaded.name);
  if (!hears) return {};
  std::vector<Audio> sounds;
  for (const std::string& path : request.audio) sounds.push_back(read_wav(path));
  return AutoFeatureExtractor::from_pretrained(request.model.path)(sounds);
}

Json report(const GenerateOutput& output, const std::vector<std::vector<std::int64_t>>& prompts, Json texts,
            const Loaded& loaded) {
  Json sequences = Json::array();
  std::int64_t n_new = 0;
  const std::size_t n_sequences = output.new_tokens.size(), n_each = n_sequences / prompts.size();
  for (std::size_t i = 0; i < n_sequences; ++i) {
    std::vector<std::int64_t> sequence = prompts[i / n_each];
    sequence.insert(sequence.end(), output.new_tokens[i].begin(), output.new_tokens[i].end());
    sequences.push_back(std::move(sequence));
    n_new += std::ssize(output.new_tokens[i]);
  }
  // The first token of each sequence comes from the prefill's logits.
  const std::int64_t n_decoded = std::max<std::int64_t>(0, n_new - std::ssize(output.new_tokens));
  Json result = {
      {"sequences", std::move(sequences)},
      {"texts", std::move(texts)},
      {"finish_reasons", output.finish_reasons},
      {"seed", output.seed},
      {"usage",
       {{"prompt_tokens", output.prompt_tokens}, {"new_tokens", n_new}, {"cached_tokens", output.cached_tokens}}},
      {"timing",
       {{"load_ms", loaded.load_ms},
        {"prefill_ms", output.prefill_ms},
        {"decode_ms", output.decode_ms},
        {"decode_steps", output.decode_steps},
        {"plans_built", output.plans_built},
        {"plan_replays", output.plan_replays},
        {"prefill_tokens_per_s", per_second(output.prompt_tokens - output.cached_tokens, output.prefill_ms)},
        {"decode_tokens_per_s", per_second(n_decoded, output.decode_ms)}}},
      {"cache",
       {{"implementation", output.cache_implementation},
        {"length", output.cache_length},
        {"bytes", output.cache_bytes},
        {"bytes_offloaded", output.cache_bytes_offloaded}}},
      {"model", {{"name", loaded.name}, {"dtype", mneme::name_of(dtype_of(loaded))}}}};
  if (!output.sequences_scores.empty()) result["sequences_scores"] = output.sequences_scores;
  if (output.draft_tokens > 0) {
    result["usage"]["draft_tokens"] = output.draft_tokens;
    result["usage"]["accepted_tokens"] = output.accepted_tokens;
  }
  if (output.prompt_logits.defined()) {
    result["last_logits"] = rows_of(output.prompt_logits);
    result["min_gap"] = output.min_gap;
  }
  return result;
}

GenerateOutput run(const GenerateRequest& request, const std::vector<std::vector<std::int64_t>>& prompts,
                   const at::Tensor& features, const GenerateOptions& options, const Loaded& loaded) {
  const EncodedInputs inputs = features.defined() ? EncodedInputs() : padded(prompts);
  if (const CausalLM* model = loaded.causal()) {
    check(request.decoder_prompts.empty(), ErrorKind::kInvalidArgument,
          "decoder ids are for encoder-decoders, {} is a causal language model; put them into its prompt", loaded.name);
    if (request.prompt_cache.empty()) return model->generate(inputs, options);
    GenerateOptions calling = options;
    PromptCache kept(request.prompt_cache, *model, prompts, calling);
    GenerateOutput output = model->generate(inputs, calling, kept.cache());
    kept.save(output);
    return output;
  }
  check(request.prompt_cache.empty(), ErrorKind::kInvalidArgument,
        "--prompt-cache is for causal language models, {} is an encoder-decoder", loaded.name);
  Seq2SeqInput input{
      .input_ids = inputs.input_ids, .attention_mask = inputs.attention_mask, .input_features = features};
  if (!request.decoder_prompts.empty()) {
    const EncodedInputs decoder = padded(decoder_prompts(request));
    input.decoder_input_ids = decoder.input_ids, input.decoder_attention_mask = decoder.attention_mask;
  }
  return loaded.seq2seq()->generate(input, options);
}

/// A model that guesses, and what tells its ids from the model's.
struct Assistant {
  std::optional<Loaded> loaded;

  void add_to(GenerateOptions& options, const Loaded& model) const {
    if (!loaded) return;
    check(loaded->causal() != nullptr, ErrorKind::kInvalidArgument,
          "{} is an encoder-decoder; an assistant must be a causal language model", loaded->name);
    options.assistant_model = loaded->causal();
    if (!model.tokenizer || !loaded->tokenizer) return;
    const Tokenizer &own = model.tokenizer->tokenizer(), &other = loaded->tokenizer->tokenizer();
    constexpr std::string_view kProbe = "Na\u00efve foxes 1234,\n  jump(over): the_lazy dogs.";
    if (own.vocab_size() == other.vocab_size() && own.encode(kProbe) == other.encode(kProbe)) return;
    options.tokenizer = &own;
    options.assistant_tokenizer = &other;
  }
};

Assistant load_assistant(const GenerateRequest& request) {
  if (request.assistant_model.empty()) return {};
  ModelRequest model = request.model;
  model.path = request.assistant_model;
  return {load(model, TokenizerNeed::kOptional)};
}

bool needs_tokenizer(const GenerateRequest& request, const GenerateOptions& options) {
  return request.chat || !request.json_schema.empty() || !options.stop_strings.empty() ||
         std::any_of(request.prompts.begin(), request.prompts.end(),
                     [](const Prompt& prompt) { return std::holds_alternative<std::string>(prompt); });
}

}  // namespace

Json generate(const GenerateRequest& request, const GenerateEvents& events) {
  GenerateOptions options = options_of(request.options, request.cache_config, request.generation_config);
  std::optional<JsonSchema> schema;
  if (!request.json_schema.empty()) schema = JsonSchema::parse(request.json_schema, "--json-schema");
  const Loaded loaded =
      load(request.model, needs_tokenizer(request, options) ? TokenizerNeed::kRequired : TokenizerNeed::kOptional);
  const Assistant assistant = load_assistant(request);
  assistant.add_to(options, loaded);
  if (schema) options.json_constraint = std::make_shared<const JsonConstraint>(*schema, loaded.tokenizer->tokenizer());
  if (events.on_loaded) events.on_loaded();
  const auto prompts = ids_of_prompts(request, loaded);
  const at::Tensor features = heard(request, loaded);

  options.cancelled = events.cancelled;
  options.on_prefill = events.on_prefill;
  std::optional<Texts> texts;
  options.on_token = [&](std::int64_t sequence, std::int64_t id) {
    if (texts) texts->put(sequence, id);
    if (events.on_token) events.on_token(sequence, id);
  };
  if (loaded.tokenizer) {
    const Tokenizer& tokenizer = loaded.tokenizer->tokenizer();
    texts.emplace(tokenizer, events);
    options.tokenizer_decode = [&](const std::vector<std::int64_t>& ids) { return tokenizer.decode(ids); };
  }
  const GenerateOutput output = run(request, prompts, features, options, loaded);
  return report(output, first_ids(request, output, prompts, loaded),
                texts ? texts->finish(output.new_tokens.size()) : Json(std::vector<Json>(output.new_tokens.size())),
                loaded);
}

}  // namespace mneme::tasks
