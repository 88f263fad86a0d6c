#include "mneme/text/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

Ids encode(const std::string& model, std::string_view piece) {
  Ids ids;
  make_unigram(parse_json(model, "model"), "file")->encode(piece, ids);
  return ids;
}

TEST(UnigramTest, TakesTheTokensOfTheBestSum) {
  const std::string model = R"({"vocab": [["u", -9], ["a", -1], ["b", -2], ["ab", -3.5], ["ba", -1], ["bab", -9]],
                                "unk_id": 0})";
  EXPECT_EQ(encode(model, "ab"), (Ids{1, 2}));  // -3 is more than -3.5
  EXPECT_EQ(encode(model, "aba"), (Ids{1, 4}));
  EXPECT_EQ(encode(model, "bab"), (Ids{4, 2}));  // -3 is more than -9
}

TEST(UnigramTest, TheFirstOfEqualSumsStays) {
  EXPECT_EQ(encode(R"({"vocab": [["a", -1], ["ab", -2], ["b", -1]], "unk_id": null})", "ab"), (Ids{1}));
}

TEST(UnigramTest, OfTokensWithOneTextTheLastCounts) {
  EXPECT_EQ(encode(R"({"vocab": [["u", 0], ["a", -1], ["a", -5], ["aa", -3]], "unk_id": 0})", "aa"), (Ids{3}));
  EXPECT_EQ(encode(R"({"vocab": [["u", 0], ["a", -5], ["a", -1], ["aa", -3]], "unk_id": 0})", "aa"), (Ids{2, 2}));
}

TEST(UnigramTest, ARunOfUnknownCharactersIsOneToken) {
  const std::string model = R"({"vocab": [["<unk>", 0], ["a", -1], ["日本", -50]], "unk_id": 0})";
  EXPECT_EQ(encode(model, "xéya"), (Ids{0, 1}));
  EXPECT_EQ(encode(model, "xax"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(model, "a日本"), (Ids{1, 2}));  // a token, though the sum of two unknown ones was less
}

TEST(UnigramTest, UnknownCharactersBecomeTheirBytes) {
  const std::string model =
      R"({"vocab": [["<unk>", 0], ["a", -1], ["<0xC3>", -9], ["<0xA9>", -9]], "unk_id": 0, "byte_fallback": true})";
  EXPECT_EQ(encode(model, "aé"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode(model, "éx"), (Ids{0}));  // not all bytes of the run have tokens
}

TEST(UnigramTest, SaysWhatCannotBeSpelled) {
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument, [] { encode(R"({"vocab": [["a", -1]]})", "ab"); }),
              HasSubstr("no token spells \"b\", and the tokenizer has no unknown token"));
}

TEST(UnigramTest, NamesWhatIsWrong) {
  const auto error = [](const char* model) {
    return testing::thrown(ErrorKind::kCorruptData, [&] { make_unigram(parse_json(model, "model"), "file"); });
  };
  EXPECT_THAT(error("{}"), HasSubstr("file: the Unigram model lacks \"vocab\""));
  EXPECT_THAT(error(R"({"vocab": {"a": 0}})"), HasSubstr("it is no list"));
  EXPECT_THAT(error(R"({"vocab": [["a", 0], ["b"]]})"), HasSubstr("token 1 must be [text, score], it is [\"b\"]"));
  EXPECT_THAT(error(R"({"vocab": [["a", "x"]]})"), HasSubstr("token 0"));
  EXPECT_THAT(error(R"({"vocab": [["a", -1]], "unk_id": 1})"), HasSubstr("\"unk_id\" is 1, there are 1 tokens"));
}

}  // namespace
}  // namespace mneme
