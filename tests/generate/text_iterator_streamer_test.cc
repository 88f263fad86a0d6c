#include "mneme/generate/text_iterator_streamer.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/generate/golden.h"
#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

class TextIteratorStreamerTest : public ::testing::Test {
 protected:
  static std::string read_all(TextIteratorStreamer& streamer) {
    std::string text;
    while (const std::optional<std::string> piece = streamer.next()) {
      EXPECT_FALSE(piece->empty());
      text += *piece;
    }
    return text;
  }

  testing::TinyModel files_;
  Tokenizer tokenizer_ = Tokenizer::from_pretrained(files_.path());
};

TEST_F(TextIteratorStreamerTest, ConcurrentReaderGetsTheTextThatIsGenerated) {
  const auto model = AutoModelForCausalLM::from_pretrained(files_.path(), {.dtype = at::kFloat});
  TextIteratorStreamer streamer(tokenizer_);
  GenerateOutput output;
  std::thread writer([&] {
    output = model->generate(testing::tensor_of({{5, 6, 7}}), {.max_new_tokens = 60, .on_token = streamer.callback()});
    streamer.end();
  });
  const std::string text = read_all(streamer);
  writer.join();
  std::vector<std::int64_t> known = output.new_tokens[0];
  std::erase_if(known, [&](std::int64_t id) { return id >= tokenizer_.vocab_size(); });
  EXPECT_EQ(text, tokenizer_.decode(known, {.skip_special_tokens = true}));
  EXPECT_FALSE(text.empty());
}

TEST_F(TextIteratorStreamerTest, ConcurrentReaderWaitsForEachPiece) {
  TextIteratorStreamer streamer(tokenizer_);
  std::vector<std::string> pieces;
  std::thread reader([&] {
    while (const auto piece = streamer.next()) pieces.push_back(*piece);
  });
  const std::string text = "A\u6f22b";
  for (const std::int64_t id : tokenizer_.encode(text)) {
    streamer.callback()(0, id);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  streamer.end();
  reader.join();
  EXPECT_EQ(pieces, std::vector<std::string>({"A", "\u6f22", "b"}));
}

// A generation that throws ends the text; whoever reads is told, however often it asks.
TEST_F(TextIteratorStreamerTest, AfterTheEndThereIsNothingEverAfter) {
  const auto model = AutoModelForCausalLM::from_pretrained(files_.path(), {.dtype = at::kFloat});
  TextIteratorStreamer streamer(tokenizer_);
  EXPECT_THROW(model->generate(testing::tensor_of({{100000}}), {.on_token = streamer.callback()}), Error);
  streamer.end();
  EXPECT_EQ(streamer.next(), std::nullopt);
  EXPECT_EQ(streamer.next(), std::nullopt);
}

TEST_F(TextIteratorStreamerTest, TheEndGivesWhatWasHeldBack) {
  TextIteratorStreamer streamer(tokenizer_);
  streamer.callback()(0, tokenizer_.encode("\u6f22").front());  // a part of it
  streamer.end();
  EXPECT_EQ(read_all(streamer), "\uFFFD");
}

}  // namespace
}  // namespace mneme
