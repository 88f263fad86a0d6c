#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/text/tokenizer.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

/// A tokenizer of a, b and ab, with some keys replaced.
Json tokenizer_json(const std::string& patch = "{}") {
  Json json =
      parse_json(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})", "small");
  json.merge_patch(parse_json(patch, "patch"));
  return json;
}

std::string error(ErrorKind kind, const std::string& patch) {
  return testing::thrown(kind, [&] { Tokenizer::from_json(tokenizer_json(patch), {}, "file"); });
}

TEST(TokenizerJsonTest, ReadsMergesOfBothKinds) {
  EXPECT_EQ(Tokenizer::from_json(tokenizer_json()).encode("ab"), (Ids{2}));
  EXPECT_EQ(Tokenizer::from_json(tokenizer_json(R"({"model": {"merges": [["a", "b"]]}})")).encode("aba"), (Ids{2, 0}));
  EXPECT_EQ(Tokenizer::from_json(tokenizer_json(R"({"model": {"merges": ["#version: 0.2", "a b"], "type": null}})"))
                .encode("ab"),
            (Ids{2}));
}

TEST(TokenizerJsonTest, NamesWhatIsWrongInTheModel) {
  using enum ErrorKind;
  EXPECT_THAT(error(kCorruptData, R"({"model": null})"), HasSubstr("file: there is no \"model\""));
  EXPECT_THAT(error(kUnsupported, R"({"model": {"type": "WordLevel"}})"),
              HasSubstr("model type \"WordLevel\" is not supported; supported are BPE, Unigram and WordPiece"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"vocab": null}})"), HasSubstr("lacks \"vocab\""));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": 3}})"), HasSubstr("\"merges\", or it has the wrong type"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": ["a c"]}})"), HasSubstr("needs the token \"c\""));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": ["b a"]}})"), HasSubstr("needs the token \"ba\""));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": ["ab"]}})"), HasSubstr("one space"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": ["a b c"]}})"), HasSubstr("one space"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": [["a"]]}})"), HasSubstr("a merge must be"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"merges": [7]}})"), HasSubstr("it is 7"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"vocab": {"a": -1}}})"), HasSubstr("must lie in 0..4194303, it is -1"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"vocab": {"a": 99999999999}}})"), HasSubstr("it is 99999999999"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"vocab": {"a": "x"}}})"), HasSubstr("it is \"x\""));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"vocab": {"c": 1}}})"), HasSubstr("two tokens"));
  EXPECT_THAT(error(kUnsupported, R"({"model": {"dropout": 0.1}})"), HasSubstr("dropout"));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"unk_token": "u"}})"), HasSubstr("unknown token \"u\""));
  EXPECT_THAT(error(kCorruptData, R"({"model": {"continuing_subword_prefix": "####"}})"),
              HasSubstr("shorter than the prefix of 4"));
}

TEST(TokenizerJsonTest, NamesWhatIsWrongAround) {
  using enum ErrorKind;
  EXPECT_THAT(error(kCorruptData, R"({"added_tokens": {}})"), HasSubstr("\"added_tokens\" must be an array"));
  EXPECT_THAT(error(kCorruptData, R"({"added_tokens": [1]})"), HasSubstr("lacks \"content\""));
  EXPECT_THAT(error(kCorruptData, R"({"normalizer": 1})"), HasSubstr("normalizer must be an object"));
  EXPECT_THAT(error(kCorruptData, R"({"post_processor": {"type": "TemplateProcessing"}})"),
              HasSubstr("lacks \"single\""));
  EXPECT_THAT(error(kUnsupported, R"({"post_processor": {"type": "X"}})"), HasSubstr("post_processor type \"X\""));
  EXPECT_THAT(
      error(kUnsupported, R"({"post_processor": {"type": "TemplateProcessing", "single": [], "special_tokens": {}}})"),
      HasSubstr("it holds it 0 times"));
  EXPECT_THAT(error(kCorruptData, R"({"post_processor": {"type": "TemplateProcessing",
                      "single": [{"SpecialToken": {"id": "s"}}], "special_tokens": {}}})"),
              HasSubstr("uses \"s\", which its special_tokens lack"));
  EXPECT_THAT(
      error(kCorruptData, R"({"post_processor": {"type": "BertProcessing", "cls": ["c", -2], "sep": ["s", 1]}})"),
      HasSubstr("it is -2"));
  testing::thrown(kCorruptData, [] { Tokenizer::from_json(Json::array()); });
  testing::thrown(kCorruptData, [] { Tokenizer::from_json(tokenizer_json(), Json::array()); });
}

TEST(TokenizerJsonTest, NamesWhatIsWrongInTheConfig) {
  const auto config_error = [](const std::string& config) {
    return testing::thrown(ErrorKind::kCorruptData,
                           [&] { Tokenizer::from_json(tokenizer_json(), parse_json(config, "config")); });
  };
  EXPECT_THAT(config_error(R"({"added_tokens_decoder": []})"), HasSubstr("must be an object"));
  EXPECT_THAT(config_error(R"({"added_tokens_decoder": {"x": {"content": "c"}}})"), HasSubstr("the key \"x\""));
  EXPECT_THAT(config_error(R"({"bos_token": 3})"), HasSubstr("lacks \"content\""));
  EXPECT_THAT(config_error(R"({"chat_template": 3})"), HasSubstr("\"chat_template\""));
}

TEST(TokenizerJsonTest, PutsSpecialTokensAround) {
  const char* patch =
      R"({"post_processor": {"type": "Sequence", "processors": [{"type": "BertProcessing", "cls": ["a", 0], "sep": ["b", 1]},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "special_tokens": {"x": {"id": "x", "ids": [1, 2], "tokens": ["b", "ab"]}}}]}})";
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_json(patch));
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{1, 2, 0, 2, 1}));
  EXPECT_EQ(tokenizer.encode("ab", {.add_special_tokens = false}), (Ids{2}));
  EXPECT_EQ(tokenizer.encode(""), (Ids{1, 2, 0, 1}));
}

}  // namespace
}  // namespace mneme
