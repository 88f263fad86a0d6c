#include "mneme/text/bpe_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

Ids encode(const std::string& model, std::string_view piece) {
  Ids ids;
  make_bpe(parse_json(model, "model"), "file")->encode(piece, ids);
  return ids;
}

TEST(BpeJsonTest, TakesEveryOption) {
  EXPECT_EQ(encode(R"({"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "dropout": null})", "aba"), (Ids{2, 0}));
  EXPECT_EQ(encode(R"({"vocab": {"a": 0, "##b": 1, "ab": 2}, "merges": [["a", "##b"]],
                       "continuing_subword_prefix": "##"})",
                   "ab"),
            (Ids{2}));
  EXPECT_EQ(encode(R"({"vocab": {"a": 0, "a</w>": 1}, "merges": [], "end_of_word_suffix": "</w>"})", "aa"),
            (Ids{0, 1}));
  EXPECT_EQ(encode(R"({"vocab": {"u": 0}, "merges": [], "unk_token": "u"})", "xy"), (Ids{0, 0}));
  EXPECT_EQ(encode(R"({"vocab": {"u": 0}, "merges": [], "unk_token": "u", "fuse_unk": true})", "xy"), (Ids{0}));
  EXPECT_EQ(encode(R"({"vocab": {"<0x78>": 0}, "merges": [], "byte_fallback": true})", "x"), (Ids{0}));
  EXPECT_EQ(encode(R"({"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [], "ignore_merges": true})", "ab"), (Ids{2}));
}

TEST(BpeJsonTest, CutsMergesAtTheirOnlySpace) {
  EXPECT_EQ(split_merge("ab c", "file"), (std::pair<std::string_view, std::string_view>{"ab", "c"}));
  for (const char* wrong : {"ab", "a b c", ""}) {
    EXPECT_THAT(testing::thrown(ErrorKind::kCorruptData, [&] { split_merge(wrong, "file"); }),
                HasSubstr(fmt::format("file: the merge \"{}\" is not two tokens", wrong)));
  }
}

TEST(BpeJsonTest, NamesTheTokenThatAMergeLacks) {
  Vocabulary vocabulary;
  vocabulary.add("a", 0);
  vocabulary.add("b", 1);
  MergeTable merges;
  const auto error = [&](std::string_view left, std::string_view right, std::size_t n_prefix_bytes) {
    return testing::thrown(ErrorKind::kCorruptData,
                           [&] { add_merge(vocabulary, left, right, n_prefix_bytes, merges, "file"); });
  };
  EXPECT_THAT(error("c", "b", 0), HasSubstr("needs the token \"c\""));
  EXPECT_THAT(error("a", "c", 0), HasSubstr("needs the token \"c\""));
  EXPECT_THAT(error("a", "b", 0), HasSubstr("needs the token \"ab\""));
  EXPECT_THAT(error("a", "b", 2), HasSubstr("shorter than the prefix of 2 bytes"));
  EXPECT_EQ(merges.size(), 0u);
  add_merge(vocabulary, "a", "b", 1, merges, "file");  // "a" without a prefix and nothing
  EXPECT_EQ(merges.merged(merges.rank(0, 1)), 0);
}

}  // namespace
}  // namespace mneme
