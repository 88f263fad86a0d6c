#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mneme {

/// Sound of one channel.
struct Audio {
  std::vector<float> samples = {};  ///< -1 to 1 where the file has integers
  std::int64_t sampling_rate = 0;   ///< samples a second
};

/// The sound of a WAV file: PCM of 8, 16, 24 or 32 bits or IEEE floats of 32 or 64; channels become one, their mean.
/// Throws Error(kIo) if the file cannot be read, Error(kCorruptData) for one that is cut off, damaged or none, and
/// Error(kUnsupported) for other encodings; each names what the file has.
Audio read_wav(const std::string& path);
/// The same from the bytes of a file; `name` is for messages.
Audio parse_wav(std::span<const std::byte> bytes, const std::string& name);

}  // namespace mneme
