#include "mneme/generate/generation_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>
#include <type_traits>

#include "mneme/base/draft_file.h"
#include "mneme/base/error.h"
#include "mneme/base/log.h"
#include "mneme/generate/option_keys.h"

namespace mneme {
namespace {

/// Keys of transformers that are the caller's choice, and not the model's.
constexpr std::string_view kOfTheCaller[] = {
    "return_dict_in_generate", "output_scores",        "output_logits",
    "output_attentions",       "output_hidden_states", "use_cache",
    "cache_implementation",    "cache_config",         "prefill_chunk_size",
};
/// Those that mean nothing here.
constexpr std::string_view kPassedOver[] = {
    "transformers_version", "_from_model_config", "_commit_hash", "return_legacy_cache",           "trust_remote_code",
    "compile_config",       "low_memory",         "is_assistant", "num_assistant_tokens_schedule",
};

bool is_among(std::span<const std::string_view> keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Keys of speech models, kept as they are.
constexpr std::string_view kSpeechKeys[] = {
    "lang_to_id",        "task_to_id",      "no_timestamps_token_id",      "forced_decoder_ids", "is_multilingual",
    "return_timestamps", "alignment_heads", "max_initial_timestamp_index", "prev_sot_token_id"};

struct Reader {
  const std::string& name;

  [[noreturn]] void refuse(const char* key, const char* wanted) const {
    throw Error(ErrorKind::kCorruptData, "{}: \"{}\" must be {}", name, key, wanted);
  }

  std::int64_t id(const Json& json, const char* key) const {
    // A comparison of Json with a number takes 2^64 - 1 for -1.
    const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <= INT32_MAX
                                                : json.is_number_integer() && json.get<std::int64_t>() <= INT32_MAX;
    if (!fits) refuse(key, "an id or a list of ids, each below 2^31");
    return json.get<std::int64_t>();
  }
  double number(const Json& json, const char* key) const {
    if (!json.is_number()) refuse(key, "a number");
    return json.get<double>();
  }
  const Json& list(const Json& json, const char* key, const char* wanted) const {
    if (!json.is_array()) refuse(key, wanted);
    return json;
  }

  void read(const Json& json, const char* key, std::optional<std::int64_t>& value) const {
    value = json_int(Json{{key, json}}, key, 0, name);
    // As older files write it, a negative id is none.
    if (std::string_view(key).ends_with("_token_id") && *value < 0) value.reset();
  }
  void read(const Json& json, const char* key, std::optional<double>& value) const { value = number(json, key); }
  void read(const Json& json, const char* key, std::optional<bool>& value) const {
    value = json_bool(Json{{key, json}}, key, false, name);
  }
  void read(const Json& json, const char* key, std::optional<EarlyStopping>& value) const {
    if (json == "never") {
      value = EarlyStopping::kNever;
    } else {
      if (!json.is_boolean()) refuse(key, "true, false or \"never\"");
      value = json.get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kFalse;
    }
  }
  void read(const Json& json, const char* key, std::optional<std::string>& value) const {
    if (!json.is_string()) refuse(key, "a text");
    value = json.get<std::string>();
  }
  void read(const Json& json, const char* key, std::vector<std::string>& value) const {
    for (const Json& text : json.is_array() ? json : Json::array({json})) {
      if (!text.is_string()) refuse(key, "a text or a list of texts");
      value.push_back(text.get<std::string>());
    }
  }
  void read(const Json& json, const char* key, std::optional<std::vector<std::int64_t>>& value) const {
    value.emplace();
    for (const Json& one : json.is_array() ? json : Json::array({json})) {
      if (const std::int64_t read = id(one, key); read >= 0) value->push_back(read);
    }
  }
  void read(const Json& json, const char* key, std::optional<std::vector<std::vector<std::int64_t>>>& value) const {
    value.emplace();
    for (const Json& word : list(json, key, "a list of lists of ids")) {
      std::vector<std::int64_t>& ids = value->emplace_back();
      for (const Json& one : list(word, key, "a list of lists of ids")) ids.push_back(id(one, key));
    }
  }
  void read(const Json& json, const char* key, std::optional<std::vector<SequenceBias>>& value) const {
    constexpr const char* kWanted = "a list of pairs [[ids], bias]";
    value.emplace();
    for (const Json& pair : list(json, key, kWanted)) {
      if (!pair.is_array() || pair.size() != 2) refuse(key, kWanted);
      SequenceBias& biased = value->emplace_back();
      for (const Json& one : list(pair[0], key, kWanted)) biased.ids.push_back(id(one, key));
      biased.bias = number(pair[1], key);
    }
  }
  void read(const Json& json, const char* key, std::optional<ExponentialDecay>& value) const {
    if (!json.is_array() || json.size() != 2) refuse(key, "a pair [start, factor]");
    value = {.start = id(json[0], key), .factor = number(json[1], key)};
  }
  void read(const Json& json, const char* key, std::optional<WatermarkingConfig>& value) const {
    if (!json.is_object()) refuse(key, "an object");
    WatermarkingConfig& w = value.emplace();
    w.greenlist_ratio = json_double(json, "greenlist_ratio", w.greenlist_ratio, name);
    w.bias = json_double(json, "bias", w.bias, name);
    w.hashing_key = json_int(json, "hashing_key", w.hashing_key, name);
    w.seeding_scheme = json_string(json, "seeding_scheme", w.seeding_scheme, name);
    w.context_width = json_int(json, "context_width", w.context_width, name);
  }
};

template <class T>
Json written(const T& value) {
  return value;
}
Json written(EarlyStopping value) {
  return value == EarlyStopping::kNever ? Json("never") : Json(value == EarlyStopping::kTrue);
}
Json written(const std::vector<SequenceBias>& value) {
  Json list = Json::array();
  for (const SequenceBias& biased : value) list.push_back(Json::array({Json(biased.ids), biased.bias}));
  return list;
}
Json written(const ExponentialDecay& value) { return Json::array({value.start, value.factor}); }
Json written(const WatermarkingConfig& w) {
  return {{"greenlist_ratio", w.greenlist_ratio},
          {"bias", w.bias},
          {"hashing_key", w.hashing_key},
          {"seeding_scheme", w.seeding_scheme},
          {"context_width", w.context_width}};
}

void warn_of_unknown(const Json& json, const std::string& name) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : json.items()) {
    bool known = key == "bos_token_id" || is_among(kOfTheCaller, key) || is_among(kPassedOver, key) ||
                 is_among(kSpeechKeys, key);
    visit_option_keys([&](const char* name_of_key, auto) { known = known || key == name_of_key; });
    if (!known && !value.is_null()) unknown.push_back(key);
  }
  if (!unknown.empty()) warn(fmt::format("{}: nothing is known of {}", name, fmt::join(unknown, ", ")));
}

bool is_set(const std::vector<std::string>& texts) { return !texts.empty(); }
template <class T>
bool is_set(const std::optional<T>& value) {
  return value.has_value();
}

}  // namespace

GenerationConfig GenerationConfig::from_json(const Json& json, const std::string& name) {
  check(json.is_object(), ErrorKind::kCorruptData, "{}: not a JSON object", name);
  GenerationConfig c;
  c.eos_token_id.emplace();
  const Reader reader{name};
  visit_option_keys([&](const char* key, auto member) {
    const auto it = json.find(key);
    if (it != json.end() && !it->is_null()) reader.read(*it, key, c.*member);
  });
  if (const auto it = json.find("bos_token_id"); it != json.end() && !it->is_null())
    reader.read(*it, "bos_token_id", c.bos_token_id);
  for (const std::string_view key : kSpeechKeys) {
    if (const auto it = json.find(key); it != json.end() && !it->is_null()) c.speech[std::string(key)] = *it;
  }
  warn_of_unknown(json, name);
  return c;
}

std::vector<std::string> GenerationConfig::keys_without_effect(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    const bool asks = key == "use_cache" ? value == false : !value.is_null() && value != false;
    if (is_among(kOfTheCaller, key) && asks) keys.push_back(key);
  }
  return keys;
}

Json GenerationConfig::to_json() const {
  Json json = Json::object();
  visit_option_keys([&](const char* key, auto member) {
    const auto& value = this->*member;
    if (!is_set(value)) return;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<std::string>>) {
      json[key] = value;
    } else {
      json[key] = written(*value);
    }
  });
  if (eos_token_id && eos_token_id->empty()) json.erase("eos_token_id");
  if (bos_token_id) json["bos_token_id"] = *bos_token_id;
  json.update(speech);
  return json;
}

void GenerationConfig::save_pretrained(const std::string& path) const {
  const std::string file = (std::filesystem::path(path) / "generation_config.json").string();
  DraftFile draft(file);
  draft.write(to_json().dump(2) + "\n");
  draft.publish();
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

GenerateOptions merged(GenerateOptions call, const GenerationConfig& model) {
  const bool has_length = call.max_length.has_value(), has_new = call.max_new_tokens.has_value();
  visit_option_keys([&](const char*, auto member) {
    if (!is_set(call.*member)) call.*member = model.*member;
  });
  if (has_length && !has_new) call.max_new_tokens.reset();
  if (has_new && !has_length) call.max_length.reset();
  return call;
}

}  // namespace mneme
