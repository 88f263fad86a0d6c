#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "mneme/audio/log_mel.h"

namespace mneme {

/// Turns sound into what a speech model reads.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(const LogMelConfig& config) : log_mel_(config) {}

  const LogMelConfig& config() const noexcept { return log_mel_.config(); }

  /// input_features [B, bands, frames] float32, each sound padded to the length that the model hears. Throws what
  /// LogMel::features throws, Error(kInvalidArgument) for no sound.
  at::Tensor operator()(const std::vector<Audio>& sounds) const;
  at::Tensor operator()(const Audio& sound) const { return (*this)(std::vector{sound}); }

 private:
  LogMel log_mel_;
};

/// Loads one under the name that users of transformers know.
struct AutoFeatureExtractor {
  /// From a model's folder, with preprocessor_config.json or processor_config.json. Throws Error(kIo / kCorruptData /
  /// kUnsupported).
  static FeatureExtractor from_pretrained(const std::string& path) {
    return FeatureExtractor(LogMelConfig::from_pretrained(path));
  }
};

}  // namespace mneme
