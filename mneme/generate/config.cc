#include "mneme/generate/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/log.h"

namespace mneme {
namespace {

constexpr std::int64_t kDefaultMaxLength = 20;  // transformers'
constexpr std::int64_t kDefaultTopK = 50;
constexpr std::int64_t kPrefillRows = 2048;  // of all sequences together: bounds the memory of activations
constexpr std::int64_t kSmallestPrefillChunk = 16;
constexpr std::int64_t kMostHypotheses = 4096;  // of one prompt
constexpr std::int64_t kMostDrafts = 512;       // at a time
constexpr std::string_view kCacheImplementations[] = {"dynamic", "static", "offloaded", "offloaded_static",
                                                      "quantized"};

/// 53 random bits: a number that JSON readers keep exactly.
std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) >> 11;
}

/// False for NaN, so that it is refused with the rest.
template <class T>
void in_range(const char* name, const std::optional<T>& value, T lowest, T highest, const char* allowed) {
  check(!value || (*value >= lowest && *value <= highest), ErrorKind::kInvalidArgument, "{} must be {}, it is {}", name,
        allowed, value.value_or(T{}));
}

void positive(const char* name, const std::optional<double>& value) {
  check(!value || (*value > 0 && std::isfinite(*value)), ErrorKind::kInvalidArgument, "{} must be above 0, it is {}",
        name, value.value_or(1));
}

std::string cache_implementation_of(const GenerateOptions& o) {
  return o.cache_implementation.value_or(names_codec(o.cache_config) ? "quantized" : "dynamic");
}

void check_ids(const char* name, const std::vector<std::int64_t>& ids, bool may_be_empty = true) {
  check(may_be_empty || !ids.empty(), ErrorKind::kInvalidArgument, "{} holds an empty list of ids", name);
  for (const std::int64_t id : ids) {
    check(id >= 0, ErrorKind::kInvalidArgument, "{} holds the id {}; ids are 0 or more", name, id);
  }
}

void check_lengths(const GenerateOptions& o) {
  in_range<std::int64_t>("max_new_tokens", o.max_new_tokens, 0, INT32_MAX, "0 to 2^31-1");
  in_range<std::int64_t>("min_new_tokens", o.min_new_tokens, 0, INT32_MAX, "0 to 2^31-1");
  in_range<std::int64_t>("max_length", o.max_length, 1, INT32_MAX, "1 to 2^31-1");
  in_range<std::int64_t>("min_length", o.min_length, 0, INT32_MAX, "0 to 2^31-1");
  check(!o.max_time || *o.max_time > 0, ErrorKind::kInvalidArgument, "max_time must be above 0 seconds, it is {}",
        o.max_time.value_or(0));
  check(std::none_of(o.stop_strings.begin(), o.stop_strings.end(), [](const std::string& t) { return t.empty(); }),
        ErrorKind::kInvalidArgument, "a stop string is empty");
}

void check_choice(const GenerateOptions& o) {
  in_range<std::int64_t>("num_beams", o.num_beams, 1, kMostHypotheses, "1 to 4096");
  in_range<std::int64_t>("num_return_sequences", o.num_return_sequences, 1, kMostHypotheses, "1 to 4096");
  check(!o.length_penalty || std::isfinite(*o.length_penalty), ErrorKind::kInvalidArgument,
        "length_penalty must be a number, it is {}", o.length_penalty.value_or(0));
  in_range("temperature", o.temperature, 0.0, 1e6, "0 (greedy) to 1e6");
  in_range<std::int64_t>("top_k", o.top_k, 0, INT64_MAX, "0 (off) or more");
  in_range("top_p", o.top_p, 0.0, 1.0, "0 to 1");
  in_range("min_p", o.min_p, 0.0, 1.0, "0 to 1");
  in_range("top_h", o.top_h, 0.0, 1.0, "above 0, to 1");
  check(o.top_h != 0.0, ErrorKind::kInvalidArgument, "top_h must be above 0, to 1, it is 0");
  in_range("typical_p", o.typical_p, 0.0, 1.0, "above 0, to 1");
  check(o.typical_p != 0.0, ErrorKind::kInvalidArgument, "typical_p must be above 0, to 1, it is 0");
  in_range("epsilon_cutoff", o.epsilon_cutoff, 0.0, 1.0, "0 (off) to 1");
  in_range("eta_cutoff", o.eta_cutoff, 0.0, 1.0, "0 (off) to 1");
  in_range<std::int64_t>("prompt_lookup_num_tokens", o.prompt_lookup_num_tokens, 1, kMostDrafts, "1 to 512");
  in_range<std::int64_t>("max_matching_ngram_size", o.max_matching_ngram_size, 1, INT32_MAX, "1 or more");
  in_range<std::int64_t>("num_assistant_tokens", o.num_assistant_tokens, 1, kMostDrafts, "1 to 512");
  in_range("assistant_confidence_threshold", o.assistant_confidence_threshold, 0.0, 1.0, "0 to 1");
  check(!o.guidance_scale || std::isfinite(*o.guidance_scale), ErrorKind::kInvalidArgument,
        "guidance_scale must be a number, it is {}", o.guidance_scale.value_or(0));
  if (const auto& w = o.watermarking_config) {
    check(w->greenlist_ratio > 0 && w->greenlist_ratio < 1, ErrorKind::kInvalidArgument,
          "watermarking_config: greenlist_ratio must be between 0 and 1, it is {}", w->greenlist_ratio);
    check(std::isfinite(w->bias), ErrorKind::kInvalidArgument, "watermarking_config: bias must be a number, it is {}",
          w->bias);
    check(w->seeding_scheme == "lefthash" || w->seeding_scheme == "selfhash", ErrorKind::kInvalidArgument,
          "watermarking_config: seeding_scheme must be lefthash or selfhash, it is {}", w->seeding_scheme);
    check(w->context_width >= 1, ErrorKind::kInvalidArgument,
          "watermarking_config: context_width must be 1 or more, it is {}", w->context_width);
    check(w->hashing_key >= 0, ErrorKind::kInvalidArgument,
          "watermarking_config: hashing_key must be 0 or more, it is {}", w->hashing_key);
  }
}

void check_penalties(const GenerateOptions& o) {
  positive("repetition_penalty", o.repetition_penalty);
  positive("encoder_repetition_penalty", o.encoder_repetition_penalty);
  in_range<std::int64_t>("no_repeat_ngram_size", o.no_repeat_ngram_size, 0, INT32_MAX, "0 (off) or more");
  in_range<std::int64_t>("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size, 0, INT32_MAX,
                         "0 (off) or more");
  for (const auto& ids : o.bad_words_ids.value_or(std::vector<std::vector<std::int64_t>>{}))
    check_ids("bad_words_ids", ids, /*may_be_empty=*/false);
  for (const SequenceBias& biased : o.sequence_bias.value_or(std::vector<SequenceBias>{})) {
    check_ids("sequence_bias", biased.ids, /*may_be_empty=*/false);
    check(!std::isnan(biased.bias), ErrorKind::kInvalidArgument, "sequence_bias holds a bias that is no number");
  }
  in_range<std::int64_t>("forced_bos_token_id", o.forced_bos_token_id, 0, INT32_MAX, "an id");
  if (o.forced_eos_token_id) check_ids("forced_eos_token_id", *o.forced_eos_token_id);
  if (o.suppress_tokens) check_ids("suppress_tokens", *o.suppress_tokens);
  if (o.begin_suppress_tokens) check_ids("begin_suppress_tokens", *o.begin_suppress_tokens);
  if (const auto& decay = o.exponential_decay_length_penalty) {
    check(decay->start >= 0, ErrorKind::kInvalidArgument,
          "exponential_decay_length_penalty must start at 0 or later, not at {}", decay->start);
    positive("exponential_decay_length_penalty's factor", decay->factor);
  }
}

void check_cache(const GenerateOptions& o) {
  const std::string cache = cache_implementation_of(o);
  check(std::ranges::find(kCacheImplementations, cache) != std::end(kCacheImplementations), ErrorKind::kInvalidArgument,
        "cache_implementation \"{}\" is not one of {}", cache, fmt::join(kCacheImplementations, ", "));
  const bool may_be_static = cache.ends_with("static") || cache == "quantized";
  check(!o.max_cache_len || may_be_static, ErrorKind::kInvalidArgument,
        "max_cache_len = {} needs cache_implementation = static, offloaded_static or quantized, it is {}",
        o.max_cache_len.value_or(0), cache);
  in_range<std::int64_t>("max_cache_len", o.max_cache_len, 1, INT64_MAX, "1 or more");
  check(o.use_cache.value_or(true) || !o.cache_implementation, ErrorKind::kInvalidArgument,
        "cache_implementation {} and use_cache = false exclude each other", cache);
  check(o.use_cache.value_or(true) || to_json(o.cache_config).empty(), ErrorKind::kInvalidArgument,
        "cache_config {} and use_cache = false exclude each other", to_json(o.cache_config).dump());
  check(!cache.starts_with("offloaded") || o.cache_config.offloading.value_or(true), ErrorKind::kInvalidArgument,
        "cache_implementation {} and offloading = false in cache_config exclude each other", cache);
  in_range<std::int64_t>("prefill_chunk_size", o.prefill_chunk_size, 1, INT64_MAX, "1 or more");
}

/// Options that are each right, but not together.
void check_together(const GenerationSettings& s, std::int64_t batch_size) {
  const GenerateOptions& o = s.options;
  if (s.drafts()) {
    check(batch_size == 1 && s.n_hypotheses() == 1, ErrorKind::kInvalidArgument,
          "drafts (an assistant model, prompt_lookup_num_tokens) go with one sequence, not with {} prompts of {} each; "
          "call generate for each prompt",
          batch_size, s.n_hypotheses());
    check(!o.assistant_model || !o.prompt_lookup_num_tokens, ErrorKind::kInvalidArgument,
          "an assistant model and prompt_lookup_num_tokens exclude each other; give one of the two");
    check((o.tokenizer == nullptr) == (o.assistant_tokenizer == nullptr), ErrorKind::kInvalidArgument,
          "an assistant with other ids needs tokenizer and assistant_tokenizer, one of them was given");
  }
  if (s.num_beams > 1) {
    check(s.num_return_sequences <= s.num_beams, ErrorKind::kInvalidArgument,
          "num_return_sequences = {} are more than num_beams = {}", s.num_return_sequences, s.num_beams);
  } else {
    check(s.num_return_sequences == 1 || s.do_sample, ErrorKind::kInvalidArgument,
          "num_return_sequences = {} needs do_sample or num_beams: a greedy choice gives the same text each time",
          s.num_return_sequences);
  }
}

/// Parity: transformers warns too. A temperature of 0 says the same as greedy choice.
void warn_of_unused(const GenerateOptions& call) {
  std::vector<std::string_view> unused;
  const auto note = [&](const char* name, bool is_set) {
    if (is_set) unused.push_back(name);
  };
  note("temperature", call.temperature.value_or(0) != 0);
  note("top_k", call.top_k.has_value());
  note("top_p", call.top_p.has_value());
  note("min_p", call.min_p.has_value());
  note("top_h", call.top_h.has_value());
  note("typical_p", call.typical_p.has_value());
  note("epsilon_cutoff", call.epsilon_cutoff.has_value());
  note("eta_cutoff", call.eta_cutoff.has_value());
  if (!unused.empty()) warn(fmt::format("without do_sample, {} changes nothing", fmt::join(unused, ", ")));
}

void warn_of_unused_beams(const GenerateOptions& call, const GenerationSettings& s) {
  if (s.num_beams > 1) return;
  if (call.length_penalty) warn("without num_beams, length_penalty changes nothing");
  if (call.early_stopping) warn("without num_beams, early_stopping changes nothing");
}

}  // namespace

void check_cache_choice(const GenerateOptions& call, bool has_cache) {
  check(!has_cache || !call.cache_implementation, ErrorKind::kInvalidArgument,
        "a cache was passed together with cache_implementation = {}; give one of the two",
        call.cache_implementation.value_or(""));
  check(!has_cache || call.use_cache.value_or(true), ErrorKind::kInvalidArgument,
        "a cache was passed together with use_cache = false; give one of the two");
}

void check_values(const GenerateOptions& options) {
  check_lengths(options);
  check_choice(options);
  check_penalties(options);
  check_cache(options);
}

GenerationSettings resolve(const GenerateOptions& call, const GenerationConfig& model, std::int64_t prompt_length,
                           std::int64_t batch_size) {
  GenerationSettings s;
  s.options = merged(call, model);
  GenerateOptions& o = s.options;
  check_values(o);
  if (o.max_new_tokens) {
    s.max_new_tokens = *o.max_new_tokens;
  } else {
    const std::int64_t max_length = o.max_length.value_or(kDefaultMaxLength);
    check(prompt_length < max_length, ErrorKind::kInvalidArgument,
          "the prompt of {} tokens leaves no room below max_length = {}; raise it or set max_new_tokens", prompt_length,
          max_length);
    s.max_new_tokens = max_length - prompt_length;
  }
  s.min_new_tokens = o.min_new_tokens.value_or(0);
  check(s.min_new_tokens <= s.max_new_tokens, ErrorKind::kInvalidArgument,
        "min_new_tokens = {} must be 0 to max_new_tokens = {}", s.min_new_tokens, s.max_new_tokens);
  check(o.stop_strings.empty() || o.tokenizer_decode, ErrorKind::kInvalidArgument,
        "stop_strings need a tokenizer; this model was given none");

  s.do_sample = o.do_sample.value_or(false) && o.temperature != 0.0;
  if (!o.do_sample.value_or(false)) warn_of_unused(call);
  if (!o.top_k) o.top_k = kDefaultTopK;
  s.num_beams = o.num_beams.value_or(1);
  s.num_return_sequences = o.num_return_sequences.value_or(1);
  s.length_penalty = o.length_penalty.value_or(1.0);
  s.early_stopping = o.early_stopping.value_or(EarlyStopping::kFalse);
  check_together(s, batch_size);
  warn_of_unused_beams(call, s);
  s.seed = o.seed ? *o.seed : drawn_seed();

  s.use_cache = o.use_cache.value_or(true);
  s.cache_config = o.cache_config;
  s.cache_implementation = cache_implementation_of(o);
  if (s.cache_implementation.ends_with("static") || o.max_cache_len) {
    // The last token is never fed back, but a cache that just misses it would surprise.
    s.max_cache_len = o.max_cache_len.value_or(prompt_length + s.max_new_tokens);
    check(prompt_length + s.max_new_tokens <= s.max_cache_len, ErrorKind::kInvalidArgument,
          "static cache: a prompt of {} + {} new tokens exceed its capacity of {}; raise max_cache_len or use a "
          "dynamic cache",
          prompt_length, s.max_new_tokens, s.max_cache_len);
  }
  s.prefill_chunk_size = o.prefill_chunk_size.value_or(
      std::max(kSmallestPrefillChunk, kPrefillRows / std::max<std::int64_t>(1, batch_size)));
  s.eos_token_id = o.eos_token_id.value_or(std::vector<std::int64_t>{});
  s.pad_token_id = o.pad_token_id ? *o.pad_token_id : s.eos_token_id.empty() ? 0 : s.eos_token_id.front();
  return s;
}

}  // namespace mneme
