#include "mneme/generate/speech_prompt.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

using Id = std::optional<std::int64_t>;

/// What the files say, checked.
class SpeechKeys {
 public:
  SpeechKeys(const Json& json, const ModelConfig& config) : json_(json), config_(config) {}

  /// Ids by name: "<|en|>" or "transcribe"; empty where the file has no such key.
  std::map<std::string, std::int64_t> ids(const char* key) const {
    std::map<std::string, std::int64_t> result;
    const auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return result;
    check(it->is_object(), ErrorKind::kCorruptData, "{}: \"{}\" must be an object", config_.name, key);
    for (const auto& [name, value] : it->items()) result[name] = id(value, key);
    return result;
  }

  /// In the order of the positions behind the start, an id that is null being the language.
  std::vector<Id> forced() const {
    const Json* pairs = nullptr;
    for (const Json* json : {&config_.raw, &json_}) {
      if (const auto it = json->find("forced_decoder_ids"); it != json->end() && !it->is_null()) pairs = &*it;
    }
    std::vector<Id> result;
    if (!pairs) return result;
    check(pairs->is_array(), ErrorKind::kCorruptData, "{}: \"forced_decoder_ids\" must be a list", config_.name);
    for (const Json& pair : *pairs) {
      const std::int64_t next = std::ssize(result) + 1;
      check(pair.is_array() && pair.size() == 2 && pair[0] == next, ErrorKind::kCorruptData,
            "{}: \"forced_decoder_ids\" must be pairs [position, id] from position 1 on; position {} is missing",
            config_.name, next);
      result.push_back(pair[1].is_null() ? Id() : id(pair[1], "forced_decoder_ids"));
    }
    return result;
  }

  Id no_times() const {
    const auto it = json_.find("no_timestamps_token_id");
    return it == json_.end() || it->is_null() ? Id() : id(*it, "no_timestamps_token_id");
  }

  bool flag(const char* key, bool fallback) const { return json_bool(json_, key, fallback, config_.name); }

 private:
  std::int64_t id(const Json& value, const char* key) const {
    check(value.is_number_integer() && value >= 0 && value < config_.vocab_size, ErrorKind::kCorruptData,
          "{}: \"{}\" holds something that is no id of the {}", config_.name, key, config_.vocab_size);
    return value.get<std::int64_t>();
  }

  const Json& json_;
  const ModelConfig& config_;
};

std::int64_t known(const std::map<std::string, std::int64_t>& ids, const std::string& name, const std::string& asked,
                   const char* what) {
  const auto it = ids.find(name);
  if (it != ids.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [each, id] : ids) names.push_back(each);
  throw Error(ErrorKind::kInvalidArgument, "the {} \"{}\" is not known to this model; there are {}", what,
              printable(asked), names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

SpeechPrompt speech_prompt(std::int64_t decoder_start, const GenerateOptions& options, const GenerationConfig& model,
                           const ModelConfig& config) {
  const SpeechKeys keys(model.speech, config);
  const std::optional<std::string> language = options.language ? options.language : model.language;
  const std::optional<std::string> task = options.task ? options.task : model.task;
  check(keys.flag("is_multilingual", true) || (!language && !task), ErrorKind::kInvalidArgument,
        "{}: this model knows English alone; leave language and task out", config.name);
  check(!keys.flag("return_timestamps", false), ErrorKind::kUnsupported,
        "{}: \"return_timestamps\" is not supported; set it to false", config.name);
  const auto languages = keys.ids("lang_to_id"), tasks = keys.ids("task_to_id");

  std::vector<Id> ids = {decoder_start};
  if (!language && !task) {
    const std::vector<Id> forced = keys.forced();
    ids.insert(ids.end(), forced.begin(), forced.end());
  }
  SpeechPrompt prompt;
  const bool heard = !language && !languages.empty() && (ids.size() == 1 || !ids[1]);
  if (language || heard) {
    if (ids.size() == 1) ids.emplace_back();
    const bool code = language && !language->starts_with("<|");
    ids[1] = heard ? languages.begin()->second
                   : known(languages, code ? "<|" + *language + "|>" : *language, *language, "language");
  }
  if (heard) {
    prompt.language_at = 1;
    for (const auto& [name, id] : languages) prompt.languages.push_back(id);
  }
  if (task) {
    ids.emplace_back(known(tasks, *task, *task, "task"));
  } else if (language && tasks.contains("transcribe")) {
    ids.emplace_back(tasks.at("transcribe"));
  }
  if (const Id none = keys.no_times(); none && ids.back() != none) ids.push_back(none);
  for (const Id& id : ids) {
    if (id) prompt.ids.push_back(*id);
  }
  return prompt;
}

}  // namespace mneme
