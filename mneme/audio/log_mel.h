#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mneme/audio/fourier.h"
#include "mneme/audio/wav.h"
#include "mneme/base/json.h"

namespace mneme {

/// The keys of preprocessor_config.json, with the defaults of WhisperFeatureExtractor.
struct LogMelConfig {
  std::int64_t feature_size = 80;      ///< mel bands
  std::int64_t sampling_rate = 16000;  ///< Hz
  std::int64_t hop_length = 160;       ///< samples from one frame to the next
  std::int64_t n_fft = 400;            ///< samples of a frame, under a Hann window
  std::int64_t chunk_length = 30;      ///< seconds: shorter sound is padded with zeros, longer refused

  std::int64_t n_samples() const { return chunk_length * sampling_rate; }
  std::int64_t n_frames() const { return n_samples() / hop_length; }

  /// From `path`/preprocessor_config.json, else `path`/processor_config.json. Throws Error(kIo) if there is neither,
  /// else what from_json throws.
  static LogMelConfig from_pretrained(const std::string& path);
  /// Throws Error(kCorruptData) for values that cannot be, which begins with `name`.
  void validate(const std::string& name) const;
  /// Throws what validate throws, Error(kUnsupported) for dither, normalized sound or padding
  /// with anything but silence.
  static LogMelConfig from_json(const Json& json, const std::string& name);
};

/// What Whisper hears: log-mel spectra of half a minute of sound, scaled to about -1 to 1.
/// Source: Radford et al. 2022, arXiv:2212.04356, section 2.2; mel scale and areas as in Slaney's Auditory Toolbox.
class LogMel {
 public:
  /// Throws what LogMelConfig::validate throws.
  explicit LogMel(const LogMelConfig& config);

  const LogMelConfig& config() const noexcept { return config_; }

  /// n_frames() rows of feature_size numbers. Computed in double precision by all threads, a frame at a time; 30 s take
  /// about 50 ms. Throws Error(kInvalidArgument) for sound at another rate (it names both), of no sample or of more
  /// than chunk_length seconds.
  std::vector<float> features(const Audio& audio) const;

  /// Rows of weights by band, [feature_size, n_fft / 2 + 1]; what the tests hold against the original.
  const std::vector<float>& filters() const noexcept { return filters_; }

 private:
  LogMelConfig config_;
  Fourier fourier_;
  std::vector<double> window_;
  std::vector<float> filters_;
};

}  // namespace mneme
