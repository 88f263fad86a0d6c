#include "mneme/text/token_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What comes out after each token, and at the end.
std::vector<std::string> stream(const std::string& json, const std::vector<std::string>& tokens, bool cleanup = false) {
  TokenDecoder decoder(parse_json(json, "decoder"), "test");
  if (cleanup) decoder.add_space_cleanup();
  TokenDecoder::Stream running = decoder.start();
  std::vector<std::string> pieces;
  for (const std::string& token : tokens) pieces.push_back(running.put(token));
  pieces.push_back(running.finish());
  return pieces;
}

TEST(TokenDecoderTest, HoldsBackUnfinishedCharacters) {
  EXPECT_THAT(stream(R"({"type": "ByteLevel"})", {"Ġa", "ã", "ģ", "Ĥb", "ã", "x", "ð"}),
              ElementsAre(" a", "", "", "あb", "", "\uFFFDx", "", "\uFFFD"));
  EXPECT_THAT(stream(R"({"type": "ByteLevel"})", {"日本", "Ġ"}), ElementsAre("日本", " ", ""));  // not byte characters
}

TEST(TokenDecoderTest, TurnsRunsOfByteTokensIntoText) {
  const char* fallback = R"({"type": "ByteFallback"})";
  EXPECT_THAT(stream(fallback, {"<0xC3>", "<0xA9>", "a"}), ElementsAre("", "", "éa", ""));
  EXPECT_THAT(stream(fallback, {"<0xC3>", "<0xA9>", "<0xFF>", "a"}),
              ElementsAre("", "", "", "\uFFFD\uFFFD\uFFFDa", ""));
  EXPECT_THAT(stream(fallback, {"<0x41>"}), ElementsAre("", "A"));
  EXPECT_THAT(stream(fallback, {"<0xG1>", "<0x1>"}), ElementsAre("<0xG1>", "<0x1>", ""));
}

TEST(TokenDecoderTest, StripsOnlyTheFirstSpaceOfAFusedText) {
  const char* llama =
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  EXPECT_THAT(stream(llama, {"▁", "▁leading", "▁x"}), ElementsAre("", " leading", " x", ""));
  EXPECT_THAT(stream(llama, {"▁▁a"}), ElementsAre(" a", ""));
  EXPECT_THAT(stream(llama, {}), ElementsAre(""));
}

TEST(TokenDecoderTest, StripsEveryTokenAtBothEnds) {
  EXPECT_THAT(stream(R"({"type": "Strip", "content": "é", "start": 1, "stop": 2})", {"ééaéé", "é", ""}),
              ElementsAre("éa", "", "", ""));
}

TEST(TokenDecoderTest, DropsTheMetaspacesOfTheFirstToken) {
  EXPECT_THAT(stream(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})", {"▁a▁b", "▁c"}),
              ElementsAre("ab", " c", ""));
  EXPECT_THAT(stream(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})", {"▁a", "▁c"}),
              ElementsAre(" a", " c", ""));
}

TEST(TokenDecoderTest, PutsWordsTogether) {
  EXPECT_THAT(stream(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})", {"do", "##n", "not", ".", "##"}),
              ElementsAre("do", "n", " not", ".", "", ""));
  EXPECT_THAT(stream(R"({"type": "BPEDecoder", "suffix": "</w>"})", {"a", "b</w>", "c</w>"}),
              ElementsAre("", "a", "b ", "c"));
  EXPECT_THAT(stream(R"({"type": "BPEDecoder", "suffix": "</w>"})", {}), ElementsAre(""));
  EXPECT_THAT(stream("null", {"a", "b"}), ElementsAre("a", " b", ""));
}

TEST(TokenDecoderTest, CleansSpacesUpAsTextBecomesCertain) {
  EXPECT_THAT(stream("null", {"is", "n't", "it", "?", "' s", "end"}, true),
              ElementsAre("", "is", "n't", " it", "", "?'s", " end"));
}

TEST(TokenDecoderTest, NamesWhatIsWrong) {
  const auto error = [](ErrorKind kind, const char* json) { return testing::thrown(kind, [&] { stream(json, {}); }); };
  EXPECT_THAT(error(ErrorKind::kUnsupported, R"({"type": "CTC"})"), HasSubstr("decoder type \"CTC\" is not supported"));
  EXPECT_THAT(error(ErrorKind::kCorruptData, "[]"), HasSubstr("must be an object"));
  EXPECT_THAT(error(ErrorKind::kCorruptData, "{}"), HasSubstr("lacks \"type\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Sequence"})"), HasSubstr("lacks \"decoders\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})"),
              HasSubstr("\"content\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"),
              HasSubstr("\"start\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Replace", "pattern": {}, "content": ""})"),
              HasSubstr("\"pattern\""));
}

TEST(TokenDecoderTest, RefusesStepsThatCouldFillTheMemory) {
  std::string steps;
  for (int i = 0; i < 40; ++i) steps += R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"},)";
  steps.pop_back();
  const Json json = parse_json(R"({"type": "Sequence", "decoders": [)" + steps + "]}", "decoder");
  // Only built, so that a decoder that is not refused cannot do what it could.
  EXPECT_THAT(testing::thrown(ErrorKind::kUnsupported, [&] { TokenDecoder(json, "test"); }),
              HasSubstr("could make a text 512 times longer; at most 64"));
}

}  // namespace
}  // namespace mneme
