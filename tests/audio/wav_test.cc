#include "mneme/audio/wav.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown;

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string chunk(std::string_view id, const std::string& content) {
  return std::string(id) + bytes_of(static_cast<std::uint32_t>(content.size())) + content +
         (content.size() % 2 ? std::string(1, '\0') : "");
}

struct Format {
  std::uint16_t encoding = 1, n_channels = 1, n_bits = 16;
  std::uint32_t rate = 16000;

  std::string bytes() const {
    const auto frame = static_cast<std::uint16_t>(n_channels * n_bits / 8);
    return bytes_of(encoding) + bytes_of(n_channels) + bytes_of(rate) + bytes_of(rate * frame) + bytes_of(frame) +
           bytes_of(n_bits);
  }
};

std::string riff(const std::string& chunks) {
  return "RIFF" + bytes_of(static_cast<std::uint32_t>(chunks.size() + 4)) + "WAVE" + chunks;
}
std::string wav(const Format& format, const std::string& samples) {
  return riff(chunk("fmt ", format.bytes()) + chunk("data", samples));
}
template <class T>
std::string joined(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) bytes += bytes_of(value);
  return bytes;
}

Audio parse(const std::string& file) { return parse_wav(std::as_bytes(std::span(file)), "x.wav"); }
std::string refusal(const std::string& file, ErrorKind kind = ErrorKind::kCorruptData) {
  const std::string message = thrown(kind, [&] { parse(file); });
  EXPECT_THAT(message, HasSubstr("x.wav"));
  return message;
}

TEST(Wav, EveryEncodingGivesTheSameSound) {
  const auto i16 = joined<std::int16_t>({0, 16384, -32768, 32767});
  const Audio audio = parse(wav({}, i16));
  EXPECT_EQ(audio.sampling_rate, 16000);
  EXPECT_THAT(audio.samples, ElementsAre(0.0f, 0.5f, -1.0f, 32767.0f / 32768));
  EXPECT_THAT(parse(wav({.n_bits = 8, .rate = 8000}, joined<std::uint8_t>({128, 192, 0}))).samples,
              ElementsAre(0.0f, 0.5f, -1.0f));
  const std::string i24 = std::string("\0\0\0", 3) + std::string("\0\0\x40", 3) + std::string("\0\0\x80", 3);
  EXPECT_THAT(parse(wav({.n_bits = 24}, i24)).samples, ElementsAre(0.0f, 0.5f, -1.0f));
  EXPECT_THAT(parse(wav({.n_bits = 32}, joined<std::int32_t>({0, 1 << 30, INT32_MIN}))).samples,
              ElementsAre(0.0f, 0.5f, -1.0f));
  EXPECT_THAT(parse(wav({.encoding = 3, .n_bits = 32}, joined<float>({0, 0.5f, -1}))).samples,
              ElementsAre(0.0f, 0.5f, -1.0f));
  EXPECT_THAT(parse(wav({.encoding = 3, .n_bits = 64}, joined<double>({0, 0.5, -1}))).samples,
              ElementsAre(0.0f, 0.5f, -1.0f));
}

TEST(Wav, ChannelsBecomeTheirMean) {
  EXPECT_THAT(parse(wav({.n_channels = 2}, joined<std::int16_t>({16384, 0, -16384, -16384}))).samples,
              ElementsAre(0.25f, -0.5f));
}

TEST(Wav, OtherChunksArePassedOverAndAnExtensibleFormatIsItsSubformat) {
  Format format{.encoding = 0xfffe};
  const std::string extension = bytes_of<std::uint16_t>(22) + bytes_of<std::uint16_t>(16) + bytes_of<std::uint32_t>(4) +
                                bytes_of<std::uint16_t>(1) + std::string(14, 'g');
  const std::string sound = joined<std::int16_t>({16384});
  const std::string file = riff(chunk("LIST", "odd") + chunk("fmt ", format.bytes() + extension) +
                                chunk("fact", "1234") + chunk("data", sound) + chunk("id3 ", "behind"));
  EXPECT_THAT(parse(file).samples, ElementsAre(0.5f));
  EXPECT_THAT(refusal(riff(chunk("fmt ", format.bytes()) + chunk("data", sound))), HasSubstr("16 bytes, it needs 40"));
}

TEST(Wav, WhatWasWrittenToAPipeGoesOnToTheEnd) {
  std::string file = wav({}, joined<std::int16_t>({16384, -16384}));
  file.replace(file.find("data") + 4, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(parse(file).samples, ElementsAre(0.5f, -0.5f));
}

TEST(Wav, ForeignAndDamagedFilesAreNamedInOneSentence) {
  EXPECT_THAT(refusal(""), HasSubstr("its 0 bytes begin with \"\""));
  EXPECT_THAT(refusal("ID3\x04 and what an mp3 has"), AllOf(HasSubstr("no WAV file"), HasSubstr("\"ID3? and wha\"")));
  EXPECT_THAT(refusal("RIFF1234AVI LIST"), HasSubstr("RIFF1234AVI"));
  const std::string good = wav({}, joined<std::int16_t>({1, 2, 3}));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 2)), HasSubstr("\"data\" has 4 bytes of the 6 that it says"));
  for (std::size_t n = 0; n < good.size(); ++n) refusal(good.substr(0, n));
  EXPECT_THAT(refusal(riff(chunk("data", "12"))), HasSubstr("no chunk \"fmt \" before \"data\""));
  EXPECT_THAT(refusal(riff(chunk("fmt ", Format().bytes()))), HasSubstr("no chunk \"data\""));
  EXPECT_THAT(refusal(riff(chunk("fmt ", "short") + chunk("data", ""))), HasSubstr("5 bytes, it needs 16"));
  EXPECT_THAT(refusal(wav({}, "odd")), HasSubstr("3 bytes of sound are no whole number of samples of 2"));
  EXPECT_THAT(refusal(wav({.n_channels = 0}, "")), HasSubstr("0 channels at 16000 Hz"));
  EXPECT_THAT(refusal(wav({.rate = 0}, "")), HasSubstr("at 0 Hz"));
  EXPECT_THAT(refusal(wav({.encoding = 2, .n_bits = 4}, ""), ErrorKind::kUnsupported),
              HasSubstr("encoding 2 of 4 bits"));
  EXPECT_THAT(refusal(wav({.n_bits = 12}, ""), ErrorKind::kUnsupported), HasSubstr("convert it to 16-bit PCM"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(wav({.encoding = 3, .n_bits = 32}, joined<float>({0, nan}))), HasSubstr("sample 1 is no finite"));
  std::string skewed = good;
  skewed[32] = 3;
  EXPECT_THAT(refusal(skewed), HasSubstr("1 channels of 16 bits are 2 bytes, not 3"));
}

TEST(Wav, ReadsFiles) {
  const Audio audio = read_wav(testing::test_data("models/whisper/short.wav"));
  EXPECT_EQ(audio.samples.size(), 12800u);
  EXPECT_EQ(read_wav(testing::test_data("models/whisper/stereo.wav")).samples.size(), 4960u);
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { read_wav("/no/such.wav"); }), HasSubstr("/no/such.wav"));
}

}  // namespace
}  // namespace mneme
