#include "mneme/audio/log_mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <numbers>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"

namespace mneme {
namespace {

constexpr double kHighestHz = 8000;
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26;

// Slaney's mel scale: linear up to 1,000 Hz, from there on 27 mels for each factor of 6.4.
constexpr double kKneeHz = 1000, kHzPerMel = 200.0 / 3, kKneeMel = kKneeHz / kHzPerMel;
const double kMelsPerLog = 27 / std::log(6.4);

double mel_of(double hz) { return hz < kKneeHz ? hz / kHzPerMel : kKneeMel + kMelsPerLog * std::log(hz / kKneeHz); }
double hz_of(double mel) {
  return mel < kKneeMel ? mel * kHzPerMel : kKneeHz * std::exp((mel - kKneeMel) / kMelsPerLog);
}

/// Triangles over neighbours of equal distance in mels, each of area 2 / its width in Hz.
std::vector<float> mel_filters(const LogMelConfig& c) {
  const std::int64_t n_bins = c.n_fft / 2 + 1;
  const double highest = mel_of(kHighestHz);
  const auto corner = [&](std::int64_t i) {
    return hz_of(highest * static_cast<double>(i) / static_cast<double>(c.feature_size + 1));
  };
  std::vector<float> filters;
  for (std::int64_t band = 0; band < c.feature_size; ++band) {
    const double left = corner(band), top = corner(band + 1), right = corner(band + 2);
    for (std::int64_t bin = 0; bin < n_bins; ++bin) {
      const double hz =
          static_cast<double>(c.sampling_rate) / 2 * static_cast<double>(bin) / static_cast<double>(n_bins - 1);
      const double height = std::min((hz - left) / (top - left), (right - hz) / (right - top));
      filters.push_back(static_cast<float>(std::max(0.0, height) * 2 / (right - left)));
    }
  }
  return filters;
}

std::int64_t size_of(const Json& json, const char* key, std::int64_t fallback, std::int64_t most,
                     const std::string& name) {
  const std::int64_t value = json_int(json, key, fallback, name);
  check(value >= 1 && value <= most, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be 1 to {}", name, key, value,
        most);
  return value;
}

}  // namespace

void LogMelConfig::validate(const std::string& name) const {
  constexpr auto kKind = ErrorKind::kCorruptData;
  check(feature_size > 0 && sampling_rate > 0 && hop_length > 0 && chunk_length > 0, kKind,
        "{}: sizes must be above 0; \"feature_size\" is {}, \"sampling_rate\" {}, \"hop_length\" {}, "
        "\"chunk_length\" {}",
        name, feature_size, sampling_rate, hop_length, chunk_length);
  check(n_fft > 0 && n_fft % 2 == 0 && n_samples() > n_fft / 2, kKind,
        "{}: \"n_fft\" is {}, it must be even and at most twice the {} samples of a chunk", name, n_fft, n_samples());
  check(n_frames() > 0, kKind, "{}: \"hop_length\" is {}, a chunk has {} samples", name, hop_length, n_samples());
  check(feature_size <= kMostNumbers / n_frames() && feature_size <= kMostNumbers / (n_fft / 2 + 1), kKind,
        "{}: {} bands of {} frames and {} frequencies are more than the 2^26 numbers that anybody needs", name,
        feature_size, n_frames(), n_fft / 2 + 1);
}

LogMelConfig LogMelConfig::from_json(const Json& json, const std::string& name) {
  check(json.is_object(), ErrorKind::kCorruptData, "{}: not a JSON object", name);
  LogMelConfig c;
  c.feature_size = size_of(json, "feature_size", c.feature_size, 4096, name);
  c.sampling_rate = size_of(json, "sampling_rate", c.sampling_rate, 1 << 20, name);
  c.hop_length = size_of(json, "hop_length", c.hop_length, 1 << 16, name);
  c.n_fft = size_of(json, "n_fft", c.n_fft, 1 << 16, name);
  c.chunk_length = size_of(json, "chunk_length", c.chunk_length, 3600, name);
  c.validate(name);
  for (const char* key : {"dither", "padding_value"}) {
    check(json_double(json, key, 0, name) == 0, ErrorKind::kUnsupported, "{}: \"{}\" other than 0 is not supported",
          name, key);
  }
  check(!json_bool(json, "do_normalize", false, name), ErrorKind::kUnsupported, "{}: \"do_normalize\" is not supported",
        name);
  return c;
}

LogMelConfig LogMelConfig::from_pretrained(const std::string& path) {
  const std::string newer = path + "/processor_config.json", file = path + "/preprocessor_config.json";
  if (std::filesystem::exists(file) || !std::filesystem::exists(newer)) return from_json(read_json_file(file), file);
  const Json json = read_json_file(newer);
  check(json.is_object() && json.contains("feature_extractor"), ErrorKind::kCorruptData,
        "{}: there is no \"feature_extractor\"", newer);
  return from_json(json.at("feature_extractor"), newer);
}

LogMel::LogMel(const LogMelConfig& config)
    : config_((config.validate("log-mel features"), config)), fourier_(config.n_fft), filters_(mel_filters(config)) {
  for (std::int64_t i = 0; i < config.n_fft; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(config.n_fft);
    window_.push_back(0.5 - 0.5 * std::cos(turn));
  }
}

std::vector<float> LogMel::features(const Audio& audio) const {
  const LogMelConfig& c = config_;
  const std::int64_t n = std::ssize(audio.samples), padded = c.n_samples(), n_bins = c.n_fft / 2 + 1;
  check(audio.sampling_rate == c.sampling_rate, ErrorKind::kInvalidArgument,
        "sound of {} samples a second was given to a model that hears {}; resample it (ffmpeg -i IN -ar {} OUT.wav)",
        audio.sampling_rate, c.sampling_rate, c.sampling_rate);
  check(n > 0, ErrorKind::kInvalidArgument, "there is no sound: 0 samples were given");
  check(n <= padded, ErrorKind::kInvalidArgument,
        "{:.1f} s of sound were given to a model that hears {} s at once; cut it into pieces",
        static_cast<double>(n) / static_cast<double>(c.sampling_rate), c.chunk_length);

  // Frames are centered at multiples of the hop; before the first sample and after the last the sound is mirrored.
  const auto sample = [&](std::int64_t i) {
    if (i < 0) i = -i;
    if (i >= padded) i = 2 * (padded - 1) - i;
    return i < n ? static_cast<double>(audio.samples[static_cast<std::size_t>(i)]) : 0.0;
  };
  std::vector<float> rows(static_cast<std::size_t>(c.n_frames() * c.feature_size));
  ThreadPool::global().run(c.n_frames(), [&](std::int64_t frame) noexcept {
    thread_local std::vector<double> windowed;
    thread_local std::vector<std::complex<double>> spectrum;
    windowed.resize(static_cast<std::size_t>(c.n_fft));
    spectrum.resize(static_cast<std::size_t>(c.n_fft));
    const std::int64_t first = frame * c.hop_length - c.n_fft / 2;
    for (std::int64_t j = 0; j < c.n_fft; ++j)
      windowed[static_cast<std::size_t>(j)] = window_[static_cast<std::size_t>(j)] * sample(first + j);
    fourier_.transform(windowed.data(), spectrum.data());
    for (std::int64_t band = 0; band < c.feature_size; ++band) {
      const float* const weights = filters_.data() + band * n_bins;
      double power = 0;
      for (std::int64_t bin = 0; bin < n_bins; ++bin)
        power += weights[bin] * std::norm(spectrum[static_cast<std::size_t>(bin)]);
      rows[static_cast<std::size_t>(frame * c.feature_size + band)] =
          static_cast<float>(std::log10(std::max(power, 1e-10)));
    }
  });
  const float floor = *std::ranges::max_element(rows) - 8.0f;  // eight decades below the loudest
  for (float& x : rows) x = (std::max(x, floor) + 4.0f) / 4.0f;
  return rows;
}

}  // namespace mneme
