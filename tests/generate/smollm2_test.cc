// The default model against what transformers computes from the same GGUF file (tests/golden/make_smollm2_goldens.py).
#include <gtest/gtest.h>

#include <cmath>

#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/default_model.h"
#include "tests/support/places.h"

namespace mneme {
namespace {

using Ids = std::vector<std::int64_t>;

class SmolLM2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::default_model_path();
    if (path_.empty()) GTEST_SKIP() << testing::kNoDefaultModel;
  }
  void skip_if_slow() {
#ifndef NDEBUG
    GTEST_SKIP() << "takes minutes without optimization";
#endif
  }

  std::string path_;
  const Json golden_ = read_json_file(testing::test_data("smollm2.json"));
};

TEST_F(SmolLM2Test, TokenizesAndDecodes) {
  const TextTokenizer tokenizer = AutoTokenizer::from_pretrained(path_);
  for (const Json& c : golden_["tokenizer"]) {
    const auto ids = c["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.tokenizer().encode(c["text"].get<std::string>(), {.add_special_tokens = false}), ids);
    EXPECT_EQ(tokenizer.decode(ids), c["decoded"].get<std::string>());
  }
}

TEST_F(SmolLM2Test, RendersChats) {
  const TextTokenizer tokenizer = AutoTokenizer::from_pretrained(path_);
  for (const Json& c : golden_["chat"]) {
    const std::string text =
        tokenizer.apply_chat_template(c["messages"], {.add_generation_prompt = c["add_generation_prompt"].get<bool>()});
    EXPECT_EQ(text, c["text"].get<std::string>());
    EXPECT_EQ(tokenizer.tokenizer().encode(text, {.add_special_tokens = false}), c["ids"].get<Ids>());
  }
}

TEST_F(SmolLM2Test, ContinuesGreedilyAsTransformersDoes) {
  skip_if_slow();
  const auto model = AutoModelForCausalLM::from_pretrained(path_, {.dtype = at::kFloat});
  testing::Rows prompts;
  for (const Json& c : golden_["greedy"]) prompts.push_back(c["input_ids"].get<Ids>());
  const GenerateOutput output = model->generate(testing::left_padded(prompts), {.max_new_tokens = 40});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(output.new_tokens[i], golden_["greedy"][i]["new_ids"].get<Ids>()) << golden_["greedy"][i]["prompt"];
  }
}

TEST_F(SmolLM2Test, FindsARealTextAsLikelyAsTransformersDoes) {
  skip_if_slow();
  const auto model = AutoModelForCausalLM::from_pretrained(path_, {.dtype = at::kFloat});
  const at::Tensor ids = testing::tensor_of({golden_["nll_ids"].get<Ids>()});
  constexpr std::int64_t kPrefill = 512;
  auto cache = DynamicCache(model->config());
  model->forward({.input_ids = ids.narrow(1, 0, kPrefill), .logits_to_keep = 1}, &cache);
  // One forward over the rest gives the same bits as one token at a time.
  const at::Tensor logits = model->forward({.input_ids = ids.narrow(1, kPrefill, ids.size(1) - 1 - kPrefill)}, &cache)
                                .logits[0]
                                .to(at::kDouble);
  const at::Tensor next = ids[0].narrow(0, kPrefill + 1, logits.size(0));
  const at::Tensor likelihoods = at::log_softmax(logits, -1).gather(1, next.unsqueeze(1));
  EXPECT_EQ(likelihoods.numel(), 255);
  EXPECT_NEAR(-likelihoods.mean().item<double>(), golden_["nll"]["full"].get<double>(), 2e-3);
}

}  // namespace
}  // namespace mneme
