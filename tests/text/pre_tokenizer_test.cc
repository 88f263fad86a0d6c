#include "mneme/text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> pieces(const std::string& json, const std::string& text, bool at_start = true) {
  PieceList list{text, {{0, text.size(), at_start}}};
  make_pre_tokenizer(parse_json(json, "pre_tokenizer"), "test")->split(list);
  std::vector<std::string> result;
  for (const auto& piece : list.pieces) result.emplace_back(list.view(piece));
  return result;
}

TEST(PreTokenizerTest, SplitsByType) {
  EXPECT_THAT(pieces(R"({"type": "Whitespace"})", "a\u200db, c²!"), ElementsAre("a\u200db", ",", "c", "²!"));
  EXPECT_THAT(pieces(R"({"type": "WhitespaceSplit"})", " a, b\u3000c "), ElementsAre("a,", "b", "c"));
  EXPECT_THAT(pieces(R"({"type": "Digits", "individual_digits": true})", "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(pieces(R"({"type": "Digits", "individual_digits": false})", "a12b"), ElementsAre("a", "12", "b"));
  EXPECT_THAT(pieces(R"({"type": "Punctuation"})", "a,.b"), ElementsAre("a", ",", ".", "b"));
  EXPECT_THAT(pieces(R"({"type": "CharDelimiterSplit", "delimiter": "é"})", "aébéé"), ElementsAre("a", "b"));
  EXPECT_THAT(pieces(R"({"type": "BertPreTokenizer"})", "a b, c"), ElementsAre("a", "b", ",", "c"));
  EXPECT_THAT(pieces(R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})", "it's é"),
              ElementsAre("Ġit", "'s", "ĠÃ©"));
  EXPECT_THAT(pieces(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})", "a b"),
              ElementsAre("aĠb"));
}

TEST(PreTokenizerTest, PutsTheMetaspaceWhereTheSchemeSays) {
  const auto metaspace = [](const char* scheme, const char* split) {
    return fmt::format(R"({{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "{}", "split": {}}})", scheme,
                       split);
  };
  EXPECT_THAT(pieces(metaspace("always", "true"), "a b", false), ElementsAre("▁a", "▁b"));
  EXPECT_THAT(pieces(metaspace("first", "false"), "a b", true), ElementsAre("▁a▁b"));
  EXPECT_THAT(pieces(metaspace("first", "false"), "a b", false), ElementsAre("a▁b"));
  EXPECT_THAT(pieces(metaspace("never", "true"), " a", true), ElementsAre("▁a"));
  EXPECT_THAT(pieces(metaspace("always", "true"), " a", true), ElementsAre("▁a"));
  EXPECT_THAT(pieces(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", "a b"),
              ElementsAre("a", "_b"));
}

TEST(PreTokenizerTest, KeepsTheStartThroughASequence) {
  const char* json = R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}]})";
  EXPECT_THAT(pieces(json, "a b"), ElementsAre("▁a", "b"));
  EXPECT_THAT(pieces(json, " a b"), ElementsAre("a", "b"));  // the first piece does not begin at the start
}

TEST(PreTokenizerTest, NamesWhatIsWrong) {
  const auto error = [](ErrorKind kind, const char* json) { return testing::thrown(kind, [&] { pieces(json, "a"); }); };
  EXPECT_THAT(error(ErrorKind::kUnsupported, R"({"type": "UnicodeScripts"})"),
              HasSubstr("pre_tokenizer type \"UnicodeScripts\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData,
                    R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "no", "invert": false})"),
              HasSubstr("unknown \"behavior\""));
  EXPECT_THAT(
      error(ErrorKind::kCorruptData, R"({"type": "Split", "pattern": "a", "behavior": "Removed", "invert": false})"),
      HasSubstr("\"pattern\" must be"));
  EXPECT_THAT(error(ErrorKind::kUnsupported,
                    R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": false})"),
              HasSubstr("cannot be used"));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Metaspace", "replacement": "ab"})"),
              HasSubstr("\"replacement\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "no"})"),
              HasSubstr("\"prepend_scheme\""));
  EXPECT_THAT(error(ErrorKind::kCorruptData, R"({"type": "Digits"})"), HasSubstr("lacks \"individual_digits\""));
}

TEST(PreTokenizerTest, BoundsHowATextGrows) {
  std::string steps;
  for (int i = 0; i < 60; ++i) steps += R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},)";
  steps.pop_back();
  testing::thrown(ErrorKind::kInvalidArgument,
                  [&] { pieces(R"({"type": "Sequence", "pretokenizers": [)" + steps + "]}", "é"); });
}

}  // namespace
}  // namespace mneme
