#include "mneme/tasks/generate.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/generate/streamer.h"
#include "mneme/tasks/loaded.h"

namespace mneme::tasks {
namespace {

/// The text of each sequence's new tokens, in whole characters as they come.
class Texts {
 public:
  Texts(const Tokenizer& tokenizer, std::size_t n_sequences, const GenerateEvents& events) : texts_(n_sequences) {
    for (std::size_t i = 0; i < n_sequences; ++i) {
      streamers_.emplace_back(tokenizer, [this, i, &events](std::string_view piece) {
        texts_[i] += piece;
        if (events.on_text) events.on_text(static_cast<std::int64_t>(i), piece);
      });
    }
  }

  void put(std::int64_t sequence, std::int64_t id) { streamers_[static_cast<std::size_t>(sequence)].put(id); }

  Json finish() {
    for (TextStreamer& streamer : streamers_) streamer.end();
    return texts_;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<TextStreamer> streamers_;
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

/// One for each prompt.
std::vector<std::vector<std::int64_t>> decoder_prompts(const GenerateRequest& request) {
  const std::size_t n = request.decoder_prompts.size(), n_prompts = request.prompts.size();
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
  if (request.decoder_prompts.empty()) {  // decoder_start_token_id
    return std::vector<std::vector<std::int64_t>>(prompts.size(), {output.sequences[0][0].item<std::int64_t>()});
  }
  return decoder_prompts(request);
}

Json report(const GenerateOutput& output, const std::vector<std::vector<std::int64_t>>& prompts, Json texts,
            const Loaded& loaded) {
  Json sequences = Json::array();
  std::int64_t n_new = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::vector<std::int64_t> sequence = prompts[i];
    sequence.insert(sequence.end(), output.new_tokens[i].begin(), output.new_tokens[i].end());
    sequences.push_back(std::move(sequence));
    n_new += std::ssize(output.new_tokens[i]);
  }
  // The first token of each sequence comes from the prefill's logits.
  const std::int64_t n_decoded = std::max<std::int64_t>(0, n_new - std::ssize(prompts));
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
        {"prefill_tokens_per_s", per_second(output.prompt_tokens - output.cached_tokens, output.prefill_ms)},
        {"decode_tokens_per_s", per_second(n_decoded, output.decode_ms)}}},
      {"cache",
       {{"implementation", output.cache_implementation},
        {"length", output.cache_length},
        {"bytes", output.cache_bytes},
        {"bytes_offloaded", output.cache_bytes_offloaded}}},
      {"model", {{"name", loaded.name}, {"dtype", mneme::name_of(dtype_of(loaded))}}}};
  if (output.prompt_logits.defined()) {
    result["last_logits"] = rows_of(output.prompt_logits);
    result["min_gap"] = output.min_gap;
  }
  return result;
}

GenerateOutput run(const GenerateRequest& request, const std::vector<std::vector<std::int64_t>>& prompts,
                   const GenerateOptions& options, const Loaded& loaded) {
  const EncodedInputs inputs = padded(prompts);
  if (const CausalLM* model = loaded.causal()) {
    check(request.decoder_prompts.empty(), ErrorKind::kInvalidArgument,
          "decoder ids are for encoder-decoders, {} is a causal language model; put them into its prompt", loaded.name);
    return model->generate(inputs, options);
  }
  Seq2SeqInput input{.input_ids = inputs.input_ids, .attention_mask = inputs.attention_mask};
  if (!request.decoder_prompts.empty()) {
    const EncodedInputs decoder = padded(decoder_prompts(request));
    input.decoder_input_ids = decoder.input_ids, input.decoder_attention_mask = decoder.attention_mask;
  }
  return loaded.seq2seq()->generate(input, options);
}

bool needs_tokenizer(const GenerateRequest& request) {
  return request.chat || !request.options.stop_strings.empty() ||
         std::any_of(request.prompts.begin(), request.prompts.end(),
                     [](const Prompt& prompt) { return std::holds_alternative<std::string>(prompt); });
}

}  // namespace

Json generate(const GenerateRequest& request, const GenerateEvents& events) {
  GenerateOptions options = request.options;
  options.cache_config = cache_config_of(request.cache_config);
  check_values(options);
  const Loaded loaded =
      load(request.model, needs_tokenizer(request) ? TokenizerNeed::kRequired : TokenizerNeed::kOptional);
  if (events.on_loaded) events.on_loaded();
  const auto prompts = ids_of_prompts(request, loaded);

  options.cancelled = events.cancelled;
  options.on_prefill = events.on_prefill;
  std::optional<Texts> texts;
  options.on_token = [&](std::int64_t sequence, std::int64_t id) {
    if (texts) texts->put(sequence, id);
    if (events.on_token) events.on_token(sequence, id);
  };
  if (loaded.tokenizer) {
    const Tokenizer& tokenizer = loaded.tokenizer->tokenizer();
    texts.emplace(tokenizer, prompts.size(), events);
    options.tokenizer_decode = [&](const std::vector<std::int64_t>& ids) { return tokenizer.decode(ids); };
  }
  const GenerateOutput output = run(request, prompts, options, loaded);
  return report(output, first_ids(request, output, prompts, loaded),
                texts ? texts->finish() : Json(std::vector<Json>(prompts.size())), loaded);
}

}  // namespace mneme::tasks
