#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/generate/options.h"
#include "mneme/models/config.h"

namespace mneme {

/// generation_config.json of a model: defaults that a call can override.
struct GenerationConfig : GenerateOptions {
  std::optional<std::int64_t> bos_token_id = {};
  /// Keys of speech models as the file has them (lang_to_id, task_to_id, no_timestamps_token_id, ..); speech_prompt.h
  /// reads them.
  Json speech = Json::object();

  /// Reads `path`/generation_config.json. As in transformers that file alone decides about eos; where there is none (or
  /// a .gguf file) the model's config does. Throws Error(kCorruptData) naming file and key.
  static GenerationConfig from_pretrained(const std::string& path, const ModelConfig& model);
  /// Keys that nobody knows are warned of; eos_token_id is set, to an empty list where there is none.
  static GenerationConfig from_json(const Json& json, const std::string& name);
  /// Those of its keys that transformers knows and that set no option here, although they ask for something: how a
  /// cache holds a text, and outputs beside texts.
  static std::vector<std::string> keys_without_effect(const Json& json);
  /// The inverse: what is set, under the same keys.
  Json to_json() const;
  /// Writes `path`/generation_config.json. Throws Error(kIo).
  void save_pretrained(const std::string& path) const;
};

/// The call, and where it leaves something open the model's file. max_new_tokens and max_length are one choice.
GenerateOptions merged(GenerateOptions call, const GenerationConfig& model);

}  // namespace mneme
