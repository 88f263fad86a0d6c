#include "mneme/audio/wav.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/mapped_file.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What the chunk "fmt " says.
struct Format {
  enum Encoding : std::uint16_t { kPcm = 1, kFloat = 3, kExtensible = 0xfffe };

  std::uint16_t encoding = 0, n_channels = 0, n_bits = 0;
  std::uint32_t sampling_rate = 0;

  std::size_t sample_bytes() const { return n_bits / 8u; }
  std::size_t frame_bytes() const { return sample_bytes() * n_channels; }

  static Format read(std::span<const std::byte> chunk, const std::string& name) {
    check(chunk.size() >= 16, ErrorKind::kCorruptData, "{}: the chunk \"fmt \" has {} bytes, it needs 16", name,
          chunk.size());
    Format f{.encoding = number_at<std::uint16_t>(chunk, 0),
             .n_channels = number_at<std::uint16_t>(chunk, 2),
             .n_bits = number_at<std::uint16_t>(chunk, 14),
             .sampling_rate = number_at<std::uint32_t>(chunk, 4)};
    const auto frame_bytes = number_at<std::uint16_t>(chunk, 12);
    if (f.encoding == kExtensible) {  // the first two bytes of its subformat say what the encoding would
      check(chunk.size() >= 40, ErrorKind::kCorruptData, "{}: an extensible chunk \"fmt \" has {} bytes, it needs 40",
            name, chunk.size());
      f.encoding = number_at<std::uint16_t>(chunk, 24);
    }
    const bool pcm = f.encoding == kPcm && (f.n_bits == 8 || f.n_bits == 16 || f.n_bits == 24 || f.n_bits == 32);
    const bool floats = f.encoding == kFloat && (f.n_bits == 32 || f.n_bits == 64);
    check(pcm || floats, ErrorKind::kUnsupported,
          "{}: the encoding {} of {} bits is not supported; convert it to 16-bit PCM", name, f.encoding, f.n_bits);
    check(f.n_channels > 0 && f.sampling_rate > 0, ErrorKind::kCorruptData, "{}: {} channels at {} Hz cannot be", name,
          f.n_channels, f.sampling_rate);
    check(frame_bytes == f.frame_bytes(), ErrorKind::kCorruptData, "{}: {} channels of {} bits are {} bytes, not {}",
          name, f.n_channels, f.n_bits, f.frame_bytes(), frame_bytes);
    return f;
  }

  double sample(const std::byte* at) const {
    const auto as = [at]<class T>(T value) {
      std::memcpy(&value, at, sizeof value);
      return static_cast<double>(value);
    };
    if (encoding == kFloat) return n_bits == 32 ? as(float{}) : as(double{});
    if (n_bits == 8) return (as(std::uint8_t{}) - 128) / 128;
    if (n_bits == 16) return as(std::int16_t{}) / 32768;
    if (n_bits == 32) return as(std::int32_t{}) / 2147483648.0;
    std::uint32_t low = 0;
    std::memcpy(&low, at, 3);
    return static_cast<double>(static_cast<std::int32_t>(low << 8)) / 2147483648.0;
  }
};

struct Chunks {
  std::optional<Format> format;
  std::optional<std::span<const std::byte>> data;
};

Chunks find_chunks(std::span<const std::byte> bytes, const std::string& name) {
  constexpr std::uint32_t kUnknownSize = 0xffffffff;  // of what was written to a pipe
  Chunks found;
  for (std::size_t at = 12; !found.data && bytes.size() - at >= 8;) {
    const std::string_view id = text_of(bytes.subspan(at, 4));
    const auto size = number_at<std::uint32_t>(bytes, at + 4);
    const std::size_t left = bytes.size() - at - 8;
    const bool rest = id == "data" && size == kUnknownSize;
    check(rest || size <= left, ErrorKind::kCorruptData,
          "{}: the chunk \"{}\" has {} bytes of the {} that it says; the file is cut off", name, printable(id), left,
          size);
    const auto content = bytes.subspan(at + 8, rest ? left : size);
    if (id == "fmt ") found.format = Format::read(content, name);
    if (id == "data") found.data = content;
    at += 8 + content.size();
    if (at < bytes.size()) at += content.size() % 2;  // chunks begin at even places
  }
  return found;
}

}  // namespace

Audio parse_wav(std::span<const std::byte> bytes, const std::string& name) {
  const bool riff = bytes.size() >= 12 && text_of(bytes.first(4)) == "RIFF" && text_of(bytes.subspan(8, 4)) == "WAVE";
  check(riff, ErrorKind::kCorruptData,
        "{}: this is no WAV file: its {} bytes begin with \"{}\", not with RIFF and WAVE", name, bytes.size(),
        printable(text_of(bytes.first(std::min<std::size_t>(bytes.size(), 12)))));
  const Chunks chunks = find_chunks(bytes, name);
  check(chunks.data.has_value(), ErrorKind::kCorruptData, "{}: there is no chunk \"data\" in its {} bytes", name,
        bytes.size());
  check(chunks.format.has_value(), ErrorKind::kCorruptData, "{}: there is no chunk \"fmt \" before \"data\"", name);
  const Format& f = *chunks.format;
  check(chunks.data->size() % f.frame_bytes() == 0, ErrorKind::kCorruptData,
        "{}: {} bytes of sound are no whole number of samples of {} bytes; the file is cut off", name,
        chunks.data->size(), f.frame_bytes());
  Audio audio{.samples = std::vector<float>(chunks.data->size() / f.frame_bytes()), .sampling_rate = f.sampling_rate};
  for (std::size_t i = 0; i < audio.samples.size(); ++i) {
    const std::byte* const frame = chunks.data->data() + i * f.frame_bytes();
    double sum = 0;
    for (std::size_t c = 0; c < f.n_channels; ++c) sum += f.sample(frame + c * f.sample_bytes());
    audio.samples[i] = static_cast<float>(sum / f.n_channels);
    check(std::isfinite(audio.samples[i]), ErrorKind::kCorruptData, "{}: sample {} is no finite number", name, i);
  }
  return audio;
}

Audio read_wav(const std::string& path) { return parse_wav(MappedFile(path).bytes(), path); }

}  // namespace mneme
