#include "mneme/audio/log_mel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "mneme/base/safetensors.h"
#include "mneme/base/thread_pool.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

const std::string kFolder = testing::test_data("models/whisper");

/// Features of the reference, [bands, frames].
std::vector<float> reference(const SafetensorsFile& file, const std::string& name) {
  for (const auto& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    std::vector<float> values(tensor.data.size() / 4);
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(LogMel, FeaturesAreTransformers) {
  const SafetensorsFile file(kFolder + "/features.safetensors");
  for (const auto& [name, sound, n_bands] :
       {std::tuple("short", "short.wav", 80), {"stereo", "stereo.wav", 80}, {"short_128", "short.wav", 128}}) {
    LogMelConfig config = LogMelConfig::from_pretrained(kFolder);
    config.feature_size = n_bands;
    const std::vector<float> rows = LogMel(config).features(read_wav(kFolder + "/" + sound));
    const std::vector<float> expected = reference(file, name);
    ASSERT_EQ(rows.size(), expected.size());
    float worst = 0;
    for (std::int64_t band = 0; band < n_bands; ++band) {
      for (std::int64_t frame = 0; frame < 100; ++frame) {
        worst = std::max(worst, std::abs(rows[static_cast<std::size_t>(frame * n_bands + band)] -
                                         expected[static_cast<std::size_t>(band * 100 + frame)]));
      }
    }
    EXPECT_LT(worst, 1e-5f) << name;
  }
}

TEST(LogMel, ThreadsChangeNothing) {
  const LogMel log_mel(LogMelConfig::from_pretrained(kFolder));
  const Audio audio = read_wav(kFolder + "/short.wav");
  ThreadPool& pool = ThreadPool::global();
  const int n_threads = pool.size();
  pool.resize(1);
  const std::vector<float> alone = log_mel.features(audio);
  pool.resize(3);
  EXPECT_EQ(log_mel.features(audio), alone);
  pool.resize(n_threads);
}

// A tone of 1,000 Hz is loudest where its band is, at any loudness.
TEST(LogMel, ATonesBandIsItsPlaceOnTheScale) {
  const LogMel log_mel({.chunk_length = 2});
  Audio audio{.samples = {}, .sampling_rate = 16000};
  for (int i = 0; i < 16000; ++i)
    audio.samples.push_back(0.3f * static_cast<float>(std::sin(2 * 3.14159265358979 * 1000 * i / 16000)));
  const std::vector<float> rows = log_mel.features(audio);
  ASSERT_EQ(rows.size(), 200u * 80);
  const float* const row = rows.data() + 50 * 80;
  const auto loudest = std::max_element(row, row + 80) - row;
  // Bands are 45.25 mels / 81 apart, 1,000 Hz is mel 15, band i has its top at corner i + 1.
  EXPECT_NEAR(static_cast<double>(loudest + 1), 15 / ((15 + 27 * std::log(8.0) / std::log(6.4)) / 81), 1.0);
  const float largest = *std::max_element(rows.begin(), rows.end()),
              least = *std::min_element(rows.begin(), rows.end());
  EXPECT_FLOAT_EQ(largest - least, 2.0f);  // eight decades, a quarter each; the second half is silent
}

TEST(LogMel, SoundThatCannotBeIsRefusedWithTheNumbers) {
  const LogMel log_mel({.chunk_length = 1});
  const auto refusal = [&](std::size_t n, std::int64_t rate) {
    return thrown(ErrorKind::kInvalidArgument, [&] { log_mel.features({std::vector<float>(n), rate}); });
  };
  EXPECT_THAT(refusal(100, 44100),
              AllOf(HasSubstr("44100 samples a second"), HasSubstr("hears 16000"), HasSubstr("resample")));
  EXPECT_THAT(refusal(0, 16000), HasSubstr("0 samples"));
  EXPECT_THAT(refusal(24000, 16000), HasSubstr("1.5 s of sound were given to a model that hears 1 s at once"));
  EXPECT_EQ(log_mel.features({std::vector<float>(16000), 16000}).size(), 100u * 80);
}

TEST(LogMelConfig, IsReadFromEitherFile) {
  const testing::TempFolder folder;
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { LogMelConfig::from_pretrained(folder.path()); }),
              HasSubstr("preprocessor_config.json"));
  folder.write("processor_config.json", R"({"feature_extractor": {"feature_size": 128}})");
  EXPECT_EQ(LogMelConfig::from_pretrained(folder.path()).feature_size, 128);
  folder.write("preprocessor_config.json", R"({"hop_length": 80, "chunk_length": 5, "n_fft": 200})");
  const LogMelConfig config = LogMelConfig::from_pretrained(folder.path());
  EXPECT_EQ(config.feature_size, 80);
  EXPECT_EQ(config.n_frames(), 1000);
  EXPECT_EQ(config.n_fft, 200);
}

TEST(LogMelConfig, ValuesThatCannotBeAreNamed) {
  const auto refusal = [](const char* text, ErrorKind kind = ErrorKind::kCorruptData) {
    return thrown(kind, [&] { LogMelConfig::from_json(parse_json(text, "p.json"), "p.json"); });
  };
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"feature_size": 0})"), HasSubstr("\"feature_size\" is 0"));
  EXPECT_THAT(refusal(R"({"n_fft": 401})"), HasSubstr("\"n_fft\" is 401"));
  EXPECT_THAT(refusal(R"({"hop_length": 30, "sampling_rate": 20, "chunk_length": 1, "n_fft": 2})"),
              HasSubstr("\"hop_length\" is 30"));
  EXPECT_THAT(refusal(R"({"feature_size": 4096, "hop_length": 1, "chunk_length": 3600})"),
              HasSubstr("4096 bands of 57600000 frames"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [] { LogMel(LogMelConfig{.hop_length = 0}); }),
              HasSubstr("\"hop_length\" 0"));
  EXPECT_THAT(refusal(R"({"dither": 0.1})", ErrorKind::kUnsupported), HasSubstr("dither"));
  EXPECT_THAT(refusal(R"({"do_normalize": true})", ErrorKind::kUnsupported), HasSubstr("do_normalize"));
}

}  // namespace
}  // namespace mneme
