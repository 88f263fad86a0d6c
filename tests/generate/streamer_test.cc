#include "mneme/generate/streamer.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

TEST(StreamerTest, WritesWholeCharactersOnlyAndNothingForSpecialTokens) {
  const testing::TinyModel model;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model.path());
  const std::string text = "Aé漢😀b";
  std::vector<std::int64_t> ids = tokenizer.encode(text);
  ids.push_back(502);  // <|im_end|>
  std::vector<std::string> pieces;
  TextStreamer streamer(tokenizer, [&](std::string_view piece) { pieces.emplace_back(piece); });
  const auto callback = streamer.callback();
  for (const std::int64_t id : ids) callback(0, id);
  streamer.end();
  std::string joined;
  for (const std::string& piece : pieces) {
    EXPECT_FALSE(piece.empty());
    EXPECT_NE(static_cast<unsigned char>(piece.front()) & 0xc0u, 0x80u) << "starts inside a character";
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_GE(pieces.size(), 5u);
}

TEST(StreamerTest, IdsThatOnlyTheModelKnowsHaveNoText) {
  const testing::TinyModel model;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model.path());
  std::string written;
  TextStreamer streamer(tokenizer, [&](std::string_view piece) { written += piece; });
  for (const std::int64_t id : {0, 503, 511, 1}) streamer.put(id);
  streamer.end();
  EXPECT_EQ(written, "!\"");
}

TEST(StreamerTest, EndWritesWhatWasHeldBack) {
  const testing::TinyModel model;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model.path());
  std::string written;
  TextStreamer streamer(tokenizer, [&](std::string_view piece) { written += piece; });
  streamer.put(tokenizer.encode("漢").front());  // a part of it
  EXPECT_EQ(written, "");
  streamer.end();
  EXPECT_EQ(written, "\uFFFD");
}

}  // namespace
}  // namespace mneme
