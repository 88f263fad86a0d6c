#include "mneme/generate/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/log.h"

namespace mneme {
namespace {

constexpr std::int64_t kDefaultMaxLength = 20;  // transformers'
constexpr std::int64_t kPrefillRows = 2048;     // of all sequences together: bounds the memory of activations
constexpr std::int64_t kSmallestPrefillChunk = 16;
constexpr std::string_view kCacheImplementations[] = {"dynamic", "static", "offloaded", "offloaded_static",
                                                      "quantized"};

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

/// One id or a list of ids; a negative one means "none", as older files write it.
std::vector<std::int64_t> id_list(const Json& json, const char* key, const std::string& name) {
  const auto it = json.find(key);
  std::vector<std::int64_t> ids;
  if (it == json.end() || it->is_null()) return ids;
  for (const Json& id : it->is_array() ? *it : Json::array({*it})) {
    // A comparison of Json with a number takes 2^64 - 1 for -1.
    const bool fits = id.is_number_unsigned() ? id.get<std::uint64_t>() <= INT32_MAX
                                              : id.is_number_integer() && id.get<std::int64_t>() <= INT32_MAX;
    check(fits, ErrorKind::kCorruptData, "{}: \"{}\" must be an id or a list of ids, each below 2^31", name, key);
    if (id >= 0) ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

std::optional<std::int64_t> optional_id(const Json& json, const char* key, const std::string& name) {
  const auto id = optional_int(json, key, name);
  return id && *id < 0 ? std::nullopt : id;
}

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

std::string cache_implementation_of(const GenerateOptions& o) {
  return o.cache_implementation.value_or(names_codec(o.cache_config) ? "quantized" : "dynamic");
}

/// The call, and where it leaves something open the model's file.
GenerateOptions merged(GenerateOptions call, const GenerationConfig& model) {
  const auto fill = [](auto& member, const auto& fallback) {
    if (!member) member = fallback;
  };
  if (!call.max_length) fill(call.max_new_tokens, model.max_new_tokens);
  if (!call.max_new_tokens) fill(call.max_length, model.max_length);
  fill(call.min_new_tokens, model.min_new_tokens);
  fill(call.do_sample, model.do_sample);
  fill(call.temperature, model.temperature);
  fill(call.top_k, model.top_k);
  fill(call.top_p, model.top_p);
  fill(call.min_p, model.min_p);
  fill(call.repetition_penalty, model.repetition_penalty);
  fill(call.pad_token_id, model.pad_token_id);
  if (!call.eos_token_id) call.eos_token_id = model.eos_token_id;
  return call;
}

/// Parity: transformers warns too. A temperature of 0 says the same as greedy choice.
void warn_of_unused(const GenerateOptions& call) {
  std::vector<std::string_view> unused;
  if (call.temperature.value_or(0) != 0) unused.push_back("temperature");
  if (call.top_k) unused.push_back("top_k");
  if (call.top_p) unused.push_back("top_p");
  if (call.min_p) unused.push_back("min_p");
  if (!unused.empty()) warn(fmt::format("without do_sample, {} changes nothing", fmt::join(unused, ", ")));
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
  c.bos_token_id = optional_id(json, "bos_token_id", name);
  c.pad_token_id = optional_id(json, "pad_token_id", name);
  c.decoder_start_token_id = optional_id(json, "decoder_start_token_id", name);
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

void check_values(const GenerateOptions& o) {
  in_range<std::int64_t>("max_new_tokens", o.max_new_tokens, 0, INT32_MAX, "0 to 2^31-1");
  in_range<std::int64_t>("min_new_tokens", o.min_new_tokens, 0, INT32_MAX, "0 to 2^31-1");
  in_range<std::int64_t>("max_length", o.max_length, 1, INT32_MAX, "1 to 2^31-1");
  check(!o.max_time || *o.max_time > 0, ErrorKind::kInvalidArgument, "max_time must be above 0 seconds, it is {}",
        o.max_time.value_or(0));
  check(std::none_of(o.stop_strings.begin(), o.stop_strings.end(), [](const std::string& t) { return t.empty(); }),
        ErrorKind::kInvalidArgument, "a stop string is empty");
  in_range("temperature", o.temperature, 0.0, 1e6, "0 (greedy) to 1e6");
  in_range<std::int64_t>("top_k", o.top_k, 0, INT64_MAX, "0 (off) or more");
  in_range("top_p", o.top_p, 0.0, 1.0, "0 to 1");
  in_range("min_p", o.min_p, 0.0, 1.0, "0 to 1");
  check(!o.repetition_penalty || (*o.repetition_penalty > 0 && std::isfinite(*o.repetition_penalty)),
        ErrorKind::kInvalidArgument, "repetition_penalty must be above 0, it is {}", o.repetition_penalty.value_or(1));
  const std::string cache = cache_implementation_of(o);
  check(std::ranges::find(kCacheImplementations, cache) != std::end(kCacheImplementations), ErrorKind::kInvalidArgument,
        "cache_implementation \"{}\" is not one of {}", cache, fmt::join(kCacheImplementations, ", "));
  const bool may_be_static = cache.ends_with("static") || cache == "quantized";
  check(!o.max_cache_len || may_be_static, ErrorKind::kInvalidArgument,
        "max_cache_len = {} needs cache_implementation = static, offloaded_static or quantized, it is {}",
        o.max_cache_len.value_or(0), cache);
  check(o.use_cache.value_or(true) || !o.cache_implementation, ErrorKind::kInvalidArgument,
        "cache_implementation {} and use_cache = false exclude each other", cache);
  in_range<std::int64_t>("prefill_chunk_size", o.prefill_chunk_size, 1, INT64_MAX, "1 or more");
}

GenerationSettings resolve(const GenerateOptions& call, const GenerationConfig& model, std::int64_t prompt_length,
                           std::int64_t batch_size) {
  const GenerateOptions o = merged(call, model);
  check_values(o);
  GenerationSettings s;
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
  s.max_time = o.max_time;
  s.stop_strings = o.stop_strings;
  check(s.stop_strings.empty() || o.tokenizer_decode, ErrorKind::kInvalidArgument,
        "stop_strings need a tokenizer; this model was given none");

  s.do_sample = o.do_sample.value_or(false);
  if (!s.do_sample) warn_of_unused(call);
  s.temperature = o.temperature.value_or(s.temperature);
  s.top_k = o.top_k.value_or(s.top_k);
  s.top_p = o.top_p.value_or(s.top_p);
  s.min_p = o.min_p.value_or(s.min_p);
  s.repetition_penalty = o.repetition_penalty.value_or(s.repetition_penalty);
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
  s.eos_token_id = *o.eos_token_id;
  s.pad_token_id = o.pad_token_id ? *o.pad_token_id : s.eos_token_id.empty() ? 0 : s.eos_token_id.front();
  return s;
}

}  // namespace mneme
