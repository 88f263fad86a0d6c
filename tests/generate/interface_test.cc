// The C++ interface as a user writes it, under its one header.
#include <mneme/mneme.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_model.h"

namespace {

TEST(InterfaceTest, LoadsEncodesGeneratesAndDecodes) {
  const mneme::testing::TinyModel folder;
  auto model = mneme::AutoModelForCausalLM::from_pretrained(folder.path(), {.dtype = at::kBFloat16});
  auto tokenizer = mneme::AutoTokenizer::from_pretrained(folder.path());
  auto inputs = tokenizer.encode("I like rock music because");
  auto output = model->generate(inputs, {.max_new_tokens = 10, .cache_implementation = "static"});
  EXPECT_EQ(output.sequences.size(1), inputs.input_ids.size(1) + 10);
  std::vector<std::int64_t> known;  // the model has a few ids more than the tokenizer
  for (const auto id : output.new_tokens[0]) {
    if (id < tokenizer.tokenizer().vocab_size()) known.push_back(id);
  }
  EXPECT_NE(tokenizer.decode(known, {.skip_special_tokens = true}), "");
  EXPECT_EQ(tokenizer.decode(inputs.input_ids[0]), "I like rock music because");

  const std::vector<mneme::ChatMessage> messages = {{.role = "user", .content = "Hello"}};
  auto text = tokenizer.apply_chat_template(messages, {.add_generation_prompt = true});
  EXPECT_THAT(text, ::testing::EndsWith("<|im_start|>assistant\n"));
}

TEST(InterfaceTest, CachesContinueForkCropAndReset) {
  const mneme::testing::TinyModel folder;
  auto model = mneme::AutoModelForCausalLM::from_pretrained(folder.path(), {.dtype = at::kFloat});
  auto tokenizer = mneme::AutoTokenizer::from_pretrained(folder.path());
  auto inputs = tokenizer.encode("One, two, three");
  auto cache = mneme::DynamicCache(model->config());
  auto output = model->generate(inputs, {.max_new_tokens = 20}, &cache);
  EXPECT_EQ(cache.seq_length(), output.sequences.size(1) - 1);

  auto fork = cache.copy();
  cache.crop(-3);
  EXPECT_EQ(cache.seq_length(), fork.seq_length() - 3);
  auto result = model->forward({.input_ids = output.sequences.narrow(1, cache.seq_length(), 1)}, &cache);
  EXPECT_EQ(result.logits.sizes(), at::IntArrayRef({1, 1, 512}));

  cache.activate_past_recording();
  cache.repeat_interleave(2);
  cache.reorder(at::tensor({1, 0}, at::kLong));
  cache.select({0});
  EXPECT_GT(cache.n_bytes(), 0);
  cache.reset();
  EXPECT_EQ(cache.seq_length(), 0);
  EXPECT_FALSE(cache.max_length());
  EXPECT_EQ(mneme::StaticCache(model->config(), {.max_cache_len = 1024}).max_length(), 1024);
}

TEST(InterfaceTest, UpdateServesAttentionOfOnesOwn) {
  const mneme::testing::TinyModel folder;
  auto model = mneme::AutoModelForCausalLM::from_pretrained(folder.path(), {.dtype = at::kFloat});
  auto cache = mneme::DynamicCache(model->config());
  const at::Tensor k = at::randn({1, 2, 3, 16}), v = at::randn({1, 2, 3, 16});
  auto [keys, values] = cache.update(k, v, 0);
  EXPECT_TRUE(at::equal(keys, k));
  EXPECT_TRUE(at::equal(values, v));
  EXPECT_TRUE(at::equal(cache.layers()[0].keys(), k));
}

}  // namespace
