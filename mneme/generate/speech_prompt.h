#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/generate/config.h"
#include "mneme/generate/generation_config.h"

namespace mneme {

/// What the decoder of a speech model begins with: its start, the language that is spoken, what to do with it, and that
/// no times are wanted.
struct SpeechPrompt {
  std::vector<std::int64_t> ids;
  /// Where the language that is heard goes, if the call names none; an id stands there that is yet to be replaced.
  std::optional<std::size_t> language_at = {};
  std::vector<std::int64_t> languages = {};  ///< ids of all that can be heard
};

/// Parity: WhisperGenerationMixin. `options.language` ("en" or "<|en|>") and `options.task` ("transcribe",
/// "translate"), else forced_decoder_ids of generation_config.json or config.json; without either the language is
/// heard. Throws Error(kInvalidArgument) for a language or task that the model does not know (it lists them), or either
/// for a model of English alone, Error(kCorruptData) for values of the files that cannot be, Error(kUnsupported) for
/// return_timestamps.
SpeechPrompt speech_prompt(std::int64_t decoder_start, const GenerateOptions& options, const GenerationConfig& model,
                           const ModelConfig& config);

}  // namespace mneme
