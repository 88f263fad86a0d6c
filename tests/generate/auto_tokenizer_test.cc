#include "mneme/generate/auto_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"
#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

using testing::thrown;
using testing::TinyModel;

class AutoTokenizerTest : public ::testing::Test {
 protected:
  TinyModel model_;
  TextTokenizer tokenizer_ = AutoTokenizer::from_pretrained(model_.path());
};

TEST_F(AutoTokenizerTest, OneTextIsOneRow) {
  const EncodedInputs inputs = tokenizer_.encode("!\"#");
  EXPECT_TRUE(at::equal(inputs.input_ids, at::tensor({0, 1, 2}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::equal(inputs.attention_mask, at::ones({1, 3}, at::kLong)));
  EXPECT_EQ(tokenizer_.decode(inputs.input_ids), "!\"#");
  EXPECT_EQ(tokenizer_.decode(inputs.input_ids[0].to(at::kInt)), "!\"#");
}

TEST_F(AutoTokenizerTest, SeveralTextsArePaddedOnTheLeft) {
  const EncodedInputs inputs = tokenizer_.encode(std::vector<std::string>{"!\"#", "", "$"});
  EXPECT_TRUE(at::equal(inputs.attention_mask, at::tensor({1, 1, 1, 0, 0, 0, 0, 0, 1}, at::kLong).view({3, 3})));
  EXPECT_EQ(inputs.input_ids[2][2].item<std::int64_t>(), 3);
}

TEST_F(AutoTokenizerTest, DecodeTakesOneTextOnly) {
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       tokenizer_.decode(at::zeros({2, 2}, at::kLong));
                     }),
              ::testing::HasSubstr("one text"));
  thrown(ErrorKind::kOutOfRange, [&] { tokenizer_.decode(at::tensor({503}, at::kLong)); });
  EXPECT_EQ(tokenizer_.decode(std::vector<std::int64_t>{501, 0}, {.skip_special_tokens = true}), "!");
}

TEST_F(AutoTokenizerTest, ChatsAreRenderedFromMessagesOrJson) {
  ASSERT_TRUE(tokenizer_.has_chat_template());
  const std::string expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(tokenizer_.apply_chat_template({{.role = "user", .content = "Hi"}}, {.add_generation_prompt = true}),
            expected);
  EXPECT_EQ(tokenizer_.apply_chat_template(Json::parse(R"([{"role": "user", "content": "Hi"}])"),
                                           {.add_generation_prompt = true}),
            expected);
}

TEST_F(AutoTokenizerTest, ABrokenOrMissingTemplateMattersOnlyToChats) {
  for (const char* source : {"{% for", ""}) {
    Json config = {{"bos_token", "<|im_start|>"}};
    if (*source) config["chat_template"] = source;
    model_.write("tokenizer_config.json", config.dump());
    const TextTokenizer tokenizer = AutoTokenizer::from_pretrained(model_.path());
    EXPECT_EQ(tokenizer.encode("!").input_ids.numel(), 1);
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { tokenizer.apply_chat_template(Json::array()); }),
                ::testing::HasSubstr("chat template"));
  }
}

TEST_F(AutoTokenizerTest, BosAndEosReachTheTemplate) {
  model_.write(
      "tokenizer_config.json",
      R"({"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": "{{ bos_token }}|{{ eos_token }}"})");
  EXPECT_EQ(AutoTokenizer::from_pretrained(model_.path()).apply_chat_template(Json::array()),
            "<|im_start|>|<|im_end|>");
}

}  // namespace
}  // namespace mneme
