#include "mneme/text/post_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PostProcessor read(const std::string& json) { return PostProcessor::from_json(parse_json(json, "json"), "file"); }

TEST(PostProcessorTest, ReadsEveryType) {
  EXPECT_THAT(read("null").prefix, IsEmpty());
  EXPECT_THAT(read(R"({"type": "ByteLevel"})").suffix, IsEmpty());
  const PostProcessor roberta = read(R"({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]})");
  EXPECT_THAT(roberta.prefix, ElementsAre(0));
  EXPECT_THAT(roberta.suffix, ElementsAre(2));
}

TEST(PostProcessorTest, WrapsLaterStepsAroundEarlierOnes) {
  const PostProcessor around = read(R"({"type": "Sequence", "processors": [
      {"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]},
      {"type": "TemplateProcessing", "special_tokens": {"x": {"ids": [3, 4]}, "y": {"ids": []}},
       "single": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "y"}},
                  {"SpecialToken": {"id": "x"}}]}]})");
  EXPECT_THAT(around.prefix, ElementsAre(3, 4, 1));
  EXPECT_THAT(around.suffix, ElementsAre(2, 3, 4));
}

TEST(PostProcessorTest, NamesWhatIsWrong) {
  using enum ErrorKind;
  const auto error = [](ErrorKind kind, const std::string& json) { return testing::thrown(kind, [&] { read(json); }); };
  const auto template_error = [&](ErrorKind kind, const std::string& rest) {
    return error(kind, R"({"type": "TemplateProcessing", )" + rest + "}");
  };
  EXPECT_THAT(error(kCorruptData, "[]"), HasSubstr("file: the post_processor must be an object"));
  EXPECT_THAT(error(kUnsupported, R"({"type": "X"})"), HasSubstr("post_processor type \"X\""));
  EXPECT_THAT(error(kCorruptData, R"({"type": "BertProcessing", "cls": ["c"], "sep": ["s", 1]})"),
              HasSubstr("\"cls\""));
  EXPECT_THAT(error(kCorruptData, R"({"type": "BertProcessing", "cls": ["c", 1.5], "sep": ["s", 1]})"),
              HasSubstr("it is 1.5"));
  EXPECT_THAT(template_error(kCorruptData, R"("single": 1)"), HasSubstr("\"single\""));
  EXPECT_THAT(template_error(kCorruptData, R"("single": ["A"])"), HasSubstr("a piece of the template must be"));
  EXPECT_THAT(template_error(kCorruptData, R"("single": [{"SpecialToken": {"id": 7}}], "special_tokens": {})"),
              HasSubstr("\"id\""));
  EXPECT_THAT(template_error(kCorruptData, R"("single": [{"SpecialToken": {"id": "s"}}], "special_tokens": {"s": 1})"),
              HasSubstr("uses \"s\", which its special_tokens lack"));
  EXPECT_THAT(template_error(kUnsupported, R"("single": [{"Sequence": {}}, {"Sequence": {}}])"),
              HasSubstr("it holds it 2 times"));
}

}  // namespace
}  // namespace mneme
