#include "mneme/generate/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "mneme/base/error.h"

namespace mneme {
namespace {

constexpr std::int64_t kDefaultMaxLength = 20;  // transformers'
constexpr std::int64_t kPrefillRows = 2048;     // of all sequences together: bounds the memory of activations
constexpr std::int64_t kSmallestPrefillChunk = 16;
constexpr std::string_view kCacheImplementations[] = {"dynamic", "static", "offloaded", "offloaded_static",
                                                      "quantized"};

template <class T>
std::optional<T> first_of(const std::optional<T>& call, const std::optional<T>& model) {
  return call ? call : model;
}

std::optional<std::int64_t> optional_int(const Json& json, const char* key, const std::string& name) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return std::nullopt;
  return json_int(json, key, 0, name);
}

std::optional<double> optional_double(const Json& json, const char* key, const std::string& name) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return std::nullopt;
  return json_double(json, key, 0, name);
}

std::vector<std::int64_t> id_list(const Json& json, const char* key, const std::string& name) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return {};
  if (it->is_number_integer()) return {it->get<std::int64_t>()};
  check(it->is_array() && std::all_of(it->begin(), it->end(), [](const Json& id) { return id.is_number_integer(); }),
        ErrorKind::kCorruptData, "{}: \"{}\" must be an id or a list of ids", name, key);
  return it->get<std::vector<std::int64_t>>();
}

/// 53 random bits: a number that JSON readers keep exactly.
std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) >> 11;
}

template <class T>
void in_range(const char* name, T value, T lowest, T highest, const char* allowed) {
  check(value >= lowest && value <= highest, ErrorKind::kInvalidArgument, "{} must be {}, it is {}", name, allowed,
        value);
}

}  // namespace

GenerationConfig GenerationConfig::from_json(const Json& json, const std::string& name) {
  check(json.is_object(), ErrorKind::kCorruptData, "{}: not a JSON object", name);
  GenerationConfig c;
  c.max_new_tokens = optional_int(json, "max_new_tokens", name);
  c.min_new_tokens = optional_int(json, "min_new_tokens", name);
  c.max_length = optional_int(json, "max_length", name);
  if (json.contains("do_sample")) c.do_sample = json_bool(json, "do_sample", false, name);
  c.temperature = optional_double(json, "temperature", name);
  c.top_k = optional_int(json, "top_k", name);
  c.top_p = optional_double(json, "top_p", name);
  c.min_p = optional_double(json, "min_p", name);
  c.repetition_penalty = optional_double(json, "repetition_penalty", name);
  c.eos_token_id = id_list(json, "eos_token_id", name);
  c.bos_token_id = optional_int(json, "bos_token_id", name);
  c.pad_token_id = optional_int(json, "pad_token_id", name);
  c.decoder_start_token_id = optional_int(json, "decoder_start_token_id", name);
  return c;
}

GenerationConfig GenerationConfig::from_pretrained(const std::string& path, const ModelConfig& model) {
  const std::string file = (std::filesystem::path(path) / "generation_config.json").string();
  if (std::filesystem::exists(file)) return from_json(read_json_file(file), file);
  GenerationConfig c;
  c.eos_token_id = model.eos_token_id;
  c.bos_token_id = model.bos_token_id;
  c.pad_token_id = model.pad_token_id;
  return c;
}

void check_cache_choice(const GenerateOptions& call, bool has_cache) {
  check(!has_cache || !call.cache_implementation, ErrorKind::kInvalidArgument,
        "a cache was passed together with cache_implementation = {}; give one of the two",
        call.cache_implementation.value_or(""));
  check(!has_cache || call.use_cache.value_or(true), ErrorKind::kInvalidArgument,
        "a cache was passed together with use_cache = false; give one of the two");
}

GenerationSettings resolve(const GenerateOptions& call, const GenerationConfig& model, std::int64_t prompt_length,
                           std::int64_t batch_size) {
  GenerationSettings s;
  const auto max_new_tokens = call.max_new_tokens ? call.max_new_tokens
                              : call.max_length   ? std::nullopt
                                                  : model.max_new_tokens;
  const std::int64_t max_length = first_of(call.max_length, model.max_length).value_or(kDefaultMaxLength);
  if (max_new_tokens) {
    in_range<std::int64_t>("max_new_tokens", *max_new_tokens, 0, INT32_MAX, "0 to 2^31-1");
    s.max_new_tokens = *max_new_tokens;
  } else {
    check(prompt_length < max_length, ErrorKind::kInvalidArgument,
          "the prompt of {} tokens leaves no room below max_length = {}; raise it or set max_new_tokens", prompt_length,
          max_length);
    s.max_new_tokens = max_length - prompt_length;
  }
  s.min_new_tokens = first_of(call.min_new_tokens, model.min_new_tokens).value_or(0);
  check(s.min_new_tokens >= 0 && s.min_new_tokens <= s.max_new_tokens, ErrorKind::kInvalidArgument,
        "min_new_tokens = {} must be 0 to max_new_tokens = {}", s.min_new_tokens, s.max_new_tokens);
  s.max_time = call.max_time;
  check(!s.max_time || *s.max_time > 0, ErrorKind::kInvalidArgument, "max_time must be above 0 seconds, it is {}",
        s.max_time.value_or(0));
  s.stop_strings = call.stop_strings;
  check(std::none_of(s.stop_strings.begin(), s.stop_strings.end(), [](const std::string& t) { return t.empty(); }),
        ErrorKind::kInvalidArgument, "a stop string is empty");
  check(s.stop_strings.empty() || call.tokenizer_decode, ErrorKind::kInvalidArgument,
        "stop_strings need a tokenizer; this model was given none");

  s.do_sample = first_of(call.do_sample, model.do_sample).value_or(false);
  s.temperature = first_of(call.temperature, model.temperature).value_or(1.0);
  s.top_k = first_of(call.top_k, model.top_k).value_or(50);
  s.top_p = first_of(call.top_p, model.top_p).value_or(1.0);
  s.min_p = first_of(call.min_p, model.min_p).value_or(0.0);
  s.repetition_penalty = first_of(call.repetition_penalty, model.repetition_penalty).value_or(1.0);
  // Comparisons are false for NaN, so it is refused with the rest.
  in_range("temperature", s.temperature, 0.0, 1e6, "0 (greedy) to 1e6");
  in_range<std::int64_t>("top_k", s.top_k, 0, INT64_MAX, "0 (off) or more");
  in_range("top_p", s.top_p, 0.0, 1.0, "0 to 1");
  in_range("min_p", s.min_p, 0.0, 1.0, "0 to 1");
  check(s.repetition_penalty > 0 && std::isfinite(s.repetition_penalty), ErrorKind::kInvalidArgument,
        "repetition_penalty must be above 0, it is {}", s.repetition_penalty);
  s.seed = call.seed ? *call.seed : drawn_seed();

  s.use_cache = call.use_cache.value_or(true);
  s.cache_config = call.cache_config;
  s.cache_implementation = call.cache_implementation.value_or(names_codec(call.cache_config) ? "quantized" : "dynamic");
  check(std::ranges::find(kCacheImplementations, s.cache_implementation) != std::end(kCacheImplementations),
        ErrorKind::kInvalidArgument, "cache_implementation \"{}\" is not one of {}", s.cache_implementation,
        fmt::join(kCacheImplementations, ", "));
  const bool may_be_static = s.cache_implementation.ends_with("static") || s.cache_implementation == "quantized";
  check(!call.max_cache_len || may_be_static, ErrorKind::kInvalidArgument,
        "max_cache_len = {} needs cache_implementation = static, offloaded_static or quantized, it is {}",
        call.max_cache_len.value_or(0), s.cache_implementation);
  const bool is_static = s.cache_implementation.ends_with("static") || call.max_cache_len;
  check(s.use_cache || !call.cache_implementation, ErrorKind::kInvalidArgument,
        "cache_implementation {} and use_cache = false exclude each other", s.cache_implementation);
  if (is_static) {
    // The last token is never fed back, but a cache that just misses it would surprise.
    s.max_cache_len = call.max_cache_len.value_or(prompt_length + s.max_new_tokens);
    check(prompt_length + s.max_new_tokens <= s.max_cache_len, ErrorKind::kInvalidArgument,
          "static cache: a prompt of {} + {} new tokens exceed its capacity of {}; raise max_cache_len or use a "
          "dynamic cache",
          prompt_length, s.max_new_tokens, s.max_cache_len);
  }
  s.prefill_chunk_size = call.prefill_chunk_size.value_or(
      std::max(kSmallestPrefillChunk, kPrefillRows / std::max<std::int64_t>(1, batch_size)));
  in_range<std::int64_t>("prefill_chunk_size", s.prefill_chunk_size, 1, INT64_MAX, "1 or more");
  s.eos_token_id = call.eos_token_id ? *call.eos_token_id : model.eos_token_id;
  const std::optional<std::int64_t> pad = first_of(call.pad_token_id, model.pad_token_id);
  s.pad_token_id = pad ? *pad : s.eos_token_id.empty() ? 0 : s.eos_token_id.front();
  return s;
}

}  // namespace mneme
