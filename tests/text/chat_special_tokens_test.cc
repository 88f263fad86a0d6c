#include "mneme/text/chat_special_tokens.h"

#include <gtest/gtest.h>

namespace mneme {
namespace {

Tokenizer tokenizer_with_bos() {
  return Tokenizer::from_json(parse_json(R"({
    "added_tokens": [{"id": 1, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false}],
    "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})",
                                         "test"),
                              parse_json(R"({"bos_token": "<s>"})", "test"));
}

TEST(ChatSpecialTokensTest, TakesTheTokenizersTokensAndLeavesTheOthersUnset) {
  ChatTemplateOptions options;
  set_special_tokens(options, tokenizer_with_bos());
  EXPECT_EQ(options.bos_token, "<s>");
  EXPECT_EQ(options.eos_token, "");
}

TEST(ChatSpecialTokensTest, WhatTheCallerSetStays) {
  ChatTemplateOptions options{.bos_token = "[B]"};
  set_special_tokens(options, tokenizer_with_bos());
  EXPECT_EQ(options.bos_token, "[B]");
}

}  // namespace
}  // namespace mneme
