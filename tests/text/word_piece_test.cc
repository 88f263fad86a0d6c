#include "mneme/text/word_piece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

Ids encode(const std::string& model, std::string_view piece) {
  Ids ids = {7};  // what is there stays
  make_word_piece(parse_json(model, "model"), "file")->encode(piece, ids);
  return {ids.begin() + 1, ids.end()};
}

const std::string kModel = R"({"vocab": {"[UNK]": 0, "un": 1, "unaff": 2, "##aff": 3, "##able": 4, "é": 5, "##é": 6}})";

TEST(WordPieceTest, TakesTheLongestTokenEachTime) {
  EXPECT_EQ(encode(kModel, "unaffable"), (Ids{2, 4}));
  EXPECT_EQ(encode(kModel, "unable"), (Ids{1, 4}));
  EXPECT_EQ(encode(kModel, "éé"), (Ids{5, 6}));
}

TEST(WordPieceTest, APieceWithARestIsUnknown) {
  EXPECT_EQ(encode(kModel, "unaffx"), (Ids{0}));
  EXPECT_EQ(encode(kModel, "able"), (Ids{0}));
}

TEST(WordPieceTest, ALongPieceIsUnknown) {
  const std::string model = R"({"vocab": {"u": 0, "é": 1, "@é": 2}, "unk_token": "u", "continuing_subword_prefix": "@",
                                "max_input_chars_per_word": 3})";
  EXPECT_EQ(encode(model, "ééé"), (Ids{1, 2, 2}));
  EXPECT_EQ(encode(model, "éééé"), (Ids{0}));
}

TEST(WordPieceTest, ALongPieceOfShortTokensTakesNoTime) {
  const std::string model = R"({"vocab": {"u": 0, "a": 1, "##a": 2, "##abc": 3}, "unk_token": "u",
                                "max_input_chars_per_word": 1000000000})";
  const Ids ids = encode(model, std::string(200'000, 'a'));  // cubic time would be days
  EXPECT_EQ(ids.size(), 200'000u);
}

TEST(WordPieceTest, NamesWhatIsWrong) {
  const auto error = [](const char* model) {
    return testing::thrown(ErrorKind::kCorruptData, [&] { make_word_piece(parse_json(model, "model"), "file"); });
  };
  EXPECT_THAT(error("{}"), HasSubstr("file: the WordPiece model lacks \"vocab\""));
  EXPECT_THAT(error(R"({"vocab": {"a": 0}})"), HasSubstr("the unknown token \"[UNK]\" is not in the vocabulary"));
  EXPECT_THAT(error(R"({"vocab": {"[UNK]": 0}, "max_input_chars_per_word": -1})"), HasSubstr("is -1"));
}

}  // namespace
}  // namespace mneme
