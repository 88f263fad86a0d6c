// The bytes are a WAV file: it gives finite samples, of which features are made, or one Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "mneme/audio/log_mel.h"
#include "mneme/audio/wav.h"
#include "mneme/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mneme::LogMel log_mel({.feature_size = 8, .n_fft = 40, .chunk_length = 1});
  try {
    mneme::Audio audio = mneme::parse_wav(std::as_bytes(std::span(data, size)), "fuzz");
    audio.sampling_rate = log_mel.config().sampling_rate;
    if (audio.samples.size() > 400) audio.samples.resize(400);
    if (log_mel.features(audio).size() != 100u * 8) std::abort();
  } catch (const mneme::Error&) {
  }
  return 0;
}
