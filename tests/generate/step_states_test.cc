#include "mneme/generate/step_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "mneme/generate/seq2seq_lm.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using testing::left_padded;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using Ids = std::vector<std::int64_t>;

TEST(StepStatesTest, ShorterSequencesHaveZerosOnTheLeftAndEndedOnesAllOver) {
  StepStates states;
  states.add(0, at::ones({3, 1, 4}));
  states.add(2, at::full({3, 2, 4}, 2.0f));
  states.add(0, at::full({3, 2, 4}, 5.0f));
  states.end_step(3, 100);
  states.end_step(3, 1);  // nothing was added
  states.add(2, at::full({3, 2, 4}, 7.0f));
  states.end_step(3, 1);
  const auto steps = states.take();
  ASSERT_EQ(steps.size(), 2u);
  ASSERT_EQ(steps[0].size(), 3u);
  EXPECT_TRUE(
      at::equal(steps[0][1].select(2, 0), at::tensor({1.f, 5.f, 5.f, 0.f, 0.f, 0.f, 0.f, 2.f, 2.f}).view({3, 3})));
  EXPECT_TRUE(at::equal(steps[1][2].select(2, 3), at::tensor({0.f, 0.f, 7.f}).view({3, 1})));
}

/// Of every layer, near those of the reference (make_hidden_states.py).
TEST(HiddenStatesOfTheReference, AreOurs) {
  const Json reference = read_json_file(testing::test_data("hidden_states.json"));
  const auto ids = reference.at("ids").get<Ids>();
  ASSERT_GT(reference.at("models").size(), 20u);
  for (const auto& [name, layers] : reference.at("models").items()) {
    const auto model = golden_model(name);
    const std::vector<at::Tensor> states =
        model->forward({.input_ids = tensor_of({ids}), .output_hidden_states = true}).hidden_states;
    ASSERT_EQ(states.size(), layers.size()) << name;
    // Parity: of Mamba it leaves the token vectors out and gives the last layer's twice, before and behind the norm.
    const bool mamba = model->config().model_type.starts_with("mamba");
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (mamba && i + 2 == layers.size()) continue;
      const at::Tensor expected = at::tensor(layers[i].get<std::vector<float>>());
      const at::Tensor error =
          (states[mamba && i + 1 < layers.size() ? i + 1 : i][0][std::ssize(ids) - 1] - expected).abs().max();
      EXPECT_LT(error.item<float>(), 1e-4f * std::max(1.0f, expected.abs().max().item<float>())) << name << " " << i;
    }
  }
}

/// Hidden states of a whole text by one pass over it.
std::vector<at::Tensor> direct(const CausalLM& model, const Ids& text) {
  const ForwardOutput output = model.forward({.input_ids = tensor_of({text}), .output_hidden_states = true});
  EXPECT_TRUE(at::equal(output.logits, model.forward({.input_ids = tensor_of({text})}).logits));
  return output.hidden_states;
}

class HiddenStatesTest : public ::testing::TestWithParam<std::string> {};

// Every token's states, of every layer, are those of one pass over the text that was written.
TEST_P(HiddenStatesTest, AreThoseOfOnePassOverTheText) {
  const auto model = golden_model(GetParam());
  const Rows prompts = {some_ids(40, 1), some_ids(25, 2)};
  for (const GenerateOptions& way :
       {GenerateOptions{}, GenerateOptions{.prefill_chunk_size = 7}, GenerateOptions{.use_cache = false},
        GenerateOptions{.do_sample = true, .num_return_sequences = 2, .seed = 3}}) {
    GenerateOptions options = way;
    options.max_new_tokens = 6;
    options.output_hidden_states = true;
    options.eos_token_id = Ids{};
    const GenerateOutput output = model->generate(left_padded(prompts), options);
    const std::size_t n_each = output.new_tokens.size() / prompts.size();
    ASSERT_EQ(output.hidden_states.size(), 6u);
    for (std::size_t i = 0; i < output.new_tokens.size(); ++i) {
      Ids text = prompts[i / n_each];
      const std::int64_t n_prompt = std::ssize(text);
      text.insert(text.end(), output.new_tokens[i].begin(), output.new_tokens[i].end() - 1);
      const std::vector<at::Tensor> expected = direct(*model, text);
      const auto row = static_cast<std::int64_t>(i);
      for (std::size_t layer = 0; layer < expected.size(); ++layer) {
        ASSERT_EQ(output.hidden_states[0].size(), expected.size());
        const at::Tensor prompt = output.hidden_states[0][layer][row];
        EXPECT_TRUE(at::equal(prompt.narrow(0, 40 - n_prompt, n_prompt), expected[layer][0].narrow(0, 0, n_prompt)))
            << GetParam() << " layer " << layer;
        EXPECT_TRUE(prompt.narrow(0, 0, 40 - n_prompt).eq(0).all().item<bool>());
        for (std::int64_t t = 1; t < 6; ++t) {
          const at::Tensor& step = output.hidden_states[static_cast<std::size_t>(t)][layer];
          EXPECT_EQ(step.size(1), 1);
          EXPECT_TRUE(at::equal(step[row][0], expected[layer][0][n_prompt + t - 1])) << GetParam() << " step " << t;
        }
      }
    }
  }
}

TEST_P(HiddenStatesTest, TheLastAreWhatTheHeadReads) {
  const auto model = golden_model(GetParam());
  const std::vector<at::Tensor> states = direct(*model, some_ids(9));
  EXPECT_EQ(std::ssize(states), std::ssize(model->config().cache_shape.layers) + 1);
  for (const at::Tensor& layer : states) {
    EXPECT_EQ(layer.sizes(), at::IntArrayRef({1, 9, model->config().hidden_size}));
    EXPECT_TRUE(layer.isfinite().all().item<bool>());
  }
  EXPECT_FALSE(at::equal(states.front(), states.back()));
}

INSTANTIATE_TEST_SUITE_P(Models, HiddenStatesTest,
                         ::testing::Values("llama", "mistral_window8", "gemma2_window8", "gpt2", "granite", "mamba",
                                           "qwen3_next", "falcon_h1"),
                         [](const auto& test) { return test.param; });

class HiddenStatesOfLlamaTest : public ::testing::Test {
 protected:
  GenerateOutput generate(const Ids& prompt, GenerateOptions options, Cache* cache = nullptr) const {
    options.output_hidden_states = true;
    options.max_new_tokens = 12;
    return model_->generate(tensor_of({prompt}), options, cache);
  }
  std::shared_ptr<const CausalLM> model_ = golden_model("llama");
};

TEST_F(HiddenStatesOfLlamaTest, DraftsDoNotChangeThem) {
  const Ids prompt = some_ids(20);
  const GenerateOutput plain = generate(prompt, {}), drafted = generate(prompt, {.assistant_model = model_.get(),
                                                                                 .num_assistant_tokens = 4,
                                                                                 .assistant_confidence_threshold = 0});
  EXPECT_GT(drafted.accepted_tokens, 0);
  ASSERT_EQ(drafted.hidden_states.size(), plain.hidden_states.size());
  for (std::size_t t = 0; t < plain.hidden_states.size(); ++t) {
    for (std::size_t l = 0; l < plain.hidden_states[t].size(); ++l)
      EXPECT_TRUE(at::equal(drafted.hidden_states[t][l], plain.hidden_states[t][l])) << t << " " << l;
  }
}

TEST_F(HiddenStatesOfLlamaTest, WhatTheCacheHoldsIsNotAmongThem) {
  const Ids prompt = some_ids(20);
  DynamicCache cache(model_->config());
  model_->forward({.input_ids = tensor_of({{prompt.begin(), prompt.begin() + 15}})}, &cache);
  const GenerateOutput warm = generate(prompt, {}, &cache), cold = generate(prompt, {});
  EXPECT_EQ(warm.hidden_states[0][2].size(1), 5);
  EXPECT_TRUE(at::equal(warm.hidden_states[0][2], cold.hidden_states[0][2].narrow(1, 15, 5)));
}

// Beams change places between steps: rows are those that ran in a step.
TEST_F(HiddenStatesOfLlamaTest, BeamsHaveARowEach) {
  const GenerateOutput output = generate(some_ids(10), {.num_beams = 3, .eos_token_id = Ids{}});
  ASSERT_EQ(output.hidden_states.size(), 12u);
  EXPECT_EQ(output.hidden_states[0][0].sizes(), at::IntArrayRef({3, 10, 64}));
  EXPECT_EQ(output.hidden_states[5][4].sizes(), at::IntArrayRef({3, 1, 64}));
  // The token that a beam's row read at step t was chosen at t - 1, from the row that beam_indices names.
  const std::vector<std::int64_t>& row = output.beam_indices[0];
  Ids text = some_ids(10);
  text.insert(text.end(), output.new_tokens[0].begin(), output.new_tokens[0].end() - 1);
  const std::vector<at::Tensor> expected = direct(*model_, text);
  for (std::size_t t = 1; t < 12; ++t) {
    EXPECT_TRUE(at::equal(output.hidden_states[t][4][row[t]][0], expected[4][0][static_cast<std::int64_t>(9 + t)]))
        << t;
  }
}

TEST_F(HiddenStatesOfLlamaTest, NoneAreKeptUnlessAskedFor) {
  EXPECT_TRUE(model_->generate(tensor_of({{5}}), {.max_new_tokens = 2}).hidden_states.empty());
  EXPECT_TRUE(model_->forward({.input_ids = tensor_of({{5}})}).hidden_states.empty());
}

TEST_F(HiddenStatesOfLlamaTest, PaddingIsZeroOnEitherSide) {
  const Ids text = some_ids(5);
  const std::vector<at::Tensor> expected = direct(*model_, text);
  for (const std::int64_t first : {0, 2, 3}) {
    at::Tensor ids = at::zeros({1, 8}, at::kLong), mask = at::zeros({1, 8}, at::kLong);
    ids.narrow(1, first, 5).copy_(tensor_of({text}));
    mask.narrow(1, first, 5).fill_(1);
    const auto states =
        model_->forward({.input_ids = ids, .attention_mask = mask, .output_hidden_states = true}).hidden_states;
    at::Tensor padded = at::zeros({1, 8, 64});
    padded.narrow(1, first, 5).copy_(expected[2]);
    EXPECT_TRUE(at::equal(states[2], padded)) << first;
  }
}

TEST(HiddenStatesOfEncoderDecodersTest, AreRefused) {
  const auto t5 = AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("t5"), {.dtype = at::kFloat});
  EXPECT_THAT(testing::thrown(ErrorKind::kUnsupported,
                              [&] {
                                t5->generate(tensor_of({{5, 1}}), {.output_hidden_states = true});
                              }),
              ::testing::HasSubstr("encoder-decoder"));
}

}  // namespace
}  // namespace mneme
