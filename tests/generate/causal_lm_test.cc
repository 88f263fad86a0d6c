#include "mneme/generate/causal_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"
#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

using testing::golden_model;
using ::testing::HasSubstr;
using testing::left_padded;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

class CausalLMTest : public ::testing::Test {
 protected:
  std::shared_ptr<const CausalLM> model_ = golden_model("llama");
};

TEST_F(CausalLMTest, TheConfigMakesCachesAndTellsWhatWasLoaded) {
  EXPECT_EQ(model_->config().vocab_size, 512);
  EXPECT_EQ(model_->model().dtype(), DType::kFloat32);
  EXPECT_EQ(DynamicCache(model_->config()).layers().size(), 4u);
  EXPECT_EQ(StaticCache(model_->config(), {.max_cache_len = 100}).max_length(), 100);
  const auto as_stored = AutoModelForCausalLM::from_pretrained(testing::golden_path("llama"));
  EXPECT_EQ(as_stored->model().dtype(), DType::kBFloat16);
}

TEST_F(CausalLMTest, SequencesArePromptAndNewTokensThenPadding) {
  Ids first_end;
  {
    const auto free = model_->generate(tensor_of({some_ids(5)}), {.max_new_tokens = 6});
    first_end = {free.new_tokens[0][1]};
  }
  const EncodedInputs inputs = left_padded({some_ids(5), some_ids(3, 2)});
  const GenerateOutput output =
      model_->generate(inputs, {.max_new_tokens = 6, .eos_token_id = first_end, .pad_token_id = 7});
  EXPECT_EQ(output.finish_reasons[0], "stop");
  EXPECT_LE(output.new_tokens[0].size(), 2u);
  EXPECT_EQ(output.new_tokens[0].back(), first_end[0]);
  const Rows rows = testing::rows_of(output.sequences);
  ASSERT_EQ(rows[0].size(), 5 + output.new_tokens[1].size());
  EXPECT_EQ(rows[0].back(), 7);
  EXPECT_TRUE(at::equal(output.sequences.narrow(1, 0, 5), inputs.input_ids));
}

TEST_F(CausalLMTest, ForwardStepByStepIsForwardAtOnce) {
  const at::Tensor ids = tensor_of({some_ids(20), some_ids(20, 2)});
  const at::Tensor whole = model_->forward({.input_ids = ids}).logits;
  EXPECT_EQ(whole.sizes(), at::IntArrayRef({2, 20, 512}));
  auto cache = DynamicCache(model_->config());
  for (std::int64_t i = 0; i < 20; ++i) {
    const at::Tensor step = model_->forward({.input_ids = ids.narrow(1, i, 1)}, &cache).logits;
    EXPECT_TRUE(at::equal(step.squeeze(1), whole.select(1, i))) << i;
  }
  EXPECT_TRUE(at::equal(model_->forward({.input_ids = ids, .logits_to_keep = 1}).logits, whole.narrow(1, 19, 1)));
}

TEST_F(CausalLMTest, PaddingOnAnySideChangesNothingAndHasZeroLogits) {
  const Ids real = some_ids(6);
  const at::Tensor expected = model_->forward({.input_ids = tensor_of({real})}).logits[0];
  Ids left(3, 0), right = real, left_mask(3, 0), right_mask(6, 1);
  left.insert(left.end(), real.begin(), real.end());
  left_mask.insert(left_mask.end(), 6, 1);
  right.insert(right.end(), 3, 0);
  right_mask.insert(right_mask.end(), 3, 0);
  const at::Tensor logits =
      model_->forward({.input_ids = tensor_of({left, right}), .attention_mask = tensor_of({left_mask, right_mask})})
          .logits;
  EXPECT_TRUE(at::equal(logits[0].narrow(0, 3, 6), expected));
  EXPECT_TRUE(at::equal(logits[1].narrow(0, 0, 6), expected));
  EXPECT_EQ(logits[0].narrow(0, 0, 3).abs().max().item<float>(), 0.0f);
}

TEST_F(CausalLMTest, AMaskOfFractionsIsRefused) {
  EncodedInputs inputs = left_padded({some_ids(5)});
  inputs.attention_mask = at::full({1, 5}, 0.5);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(inputs, {.max_new_tokens = 1}); }),
              HasSubstr("integers"));
}

TEST_F(CausalLMTest, InputsMustFitTheModelAndTheCache) {
  auto cache = DynamicCache(model_->config());
  const auto refused = [&](const ForwardInput& input) {
    return thrown(ErrorKind::kInvalidArgument, [&] { model_->forward(input, &cache); });
  };
  EXPECT_THAT(refused({.input_ids = tensor_of({{1, 512}})}), HasSubstr("512"));
  EXPECT_THAT(refused({.input_ids = tensor_of({{-1}})}), HasSubstr("-1"));
  EXPECT_THAT(refused({}), HasSubstr("neither"));
  EXPECT_THAT(refused({.input_ids = at::zeros({1, 2})}), HasSubstr("integers"));
  EXPECT_THAT(refused({.input_ids = tensor_of({{1, 2}}), .attention_mask = tensor_of({{0, 0}})}), HasSubstr("zeros"));
  EXPECT_THAT(refused({.input_ids = tensor_of({{1, 2}}), .attention_mask = tensor_of({{1}})}),
              HasSubstr("attention_mask"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({1, 2, 64}).requires_grad_()}), HasSubstr("grad"));
  EXPECT_EQ(cache.seq_length(), 0);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(at::zeros({3}, at::kLong)); }),
              HasSubstr("[batch, tokens]"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       model_->generate(at::empty({0, 3}, at::kLong));
                     }),
              HasSubstr("no prompt"));
}

TEST_F(CausalLMTest, ACacheOfAnotherModelIsRefusedByGenerateToo) {
  DynamicCache cache(model_->config());
  const auto other = golden_model("mistral_window8");  // heads of the same size, a window
  const std::string message = thrown(ErrorKind::kInvalidArgument,
                                     [&] { other->generate(tensor_of({some_ids(5)}), {.max_new_tokens = 1}, &cache); });
  EXPECT_THAT(message, HasSubstr("the model's keeps last 8"));
  EXPECT_EQ(cache.seq_length(), 0);
}

TEST_F(CausalLMTest, ADeviceThatIsNotThereIsRefused) {
  EXPECT_THAT(
      thrown(ErrorKind::kUnsupported,
             [] { AutoModelForCausalLM::from_pretrained(testing::golden_path("llama"), {.device = at::kMeta}); }),
      HasSubstr("meta"));
}

TEST_F(CausalLMTest, ACacheAndAnImplementationExcludeEachOther) {
  auto cache = DynamicCache(model_->config());
  const at::Tensor ids = tensor_of({some_ids(5)});
  thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(ids, {.cache_implementation = "static"}, &cache); });
  thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(ids, {.use_cache = false}, &cache); });
}

TEST_F(CausalLMTest, EverythingRunsInInferenceMode) {
  const GenerateOutput output =
      model_->generate(tensor_of({some_ids(3)}), {.max_new_tokens = 2, .output_logits = true});
  EXPECT_TRUE(output.prompt_logits.is_inference());
  EXPECT_TRUE(model_->forward({.input_ids = tensor_of({some_ids(3)})}).logits.is_inference());
}

TEST_F(CausalLMTest, ConcurrentThreadsWithACacheEachAreCorrect) {
  const Rows prompts = {some_ids(30, 1), some_ids(50, 2), some_ids(7, 3)};
  Rows expected, got(prompts.size());
  const GenerateOptions options{.max_new_tokens = 20};
  for (const Ids& prompt : prompts) expected.push_back(model_->generate(tensor_of({prompt}), options).new_tokens[0]);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = model_->generate(tensor_of({prompts[i]}), options).new_tokens[0]; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, expected);
}

// From public reports: two end-of-text ids in generation_config.json, a third in config.json.
TEST_F(CausalLMTest, GenerationConfigAloneDecidesWhereTextsEnd) {
  const Ids prompt = some_ids(5);
  const Ids free = model_->generate(tensor_of({prompt}), {.max_new_tokens = 8}).new_tokens[0];
  const auto stops_at = [&](std::int64_t in_config, const Json& in_generation_config) {
    const testing::TinyModel tiny;
    Json config = read_json_file(tiny.path("config.json"));
    config["eos_token_id"] = in_config;
    tiny.write("config.json", config.dump());
    tiny.write("generation_config.json", Json{{"eos_token_id", in_generation_config}}.dump());
    const auto model = AutoModelForCausalLM::from_pretrained(tiny.path(), {.dtype = at::kFloat});
    return model->generate(tensor_of({prompt}), {.max_new_tokens = 8}).new_tokens[0];
  };
  const auto until = [&](std::int64_t id) { return Ids(free.begin(), std::find(free.begin(), free.end(), id) + 1); };
  EXPECT_EQ(stops_at(free[1], Json::array({free[4], free[3]})), until(free[3]));
  EXPECT_EQ(stops_at(free[1], free[2]), until(free[2]));
  EXPECT_EQ(stops_at(free[1], nullptr), free);
}

}  // namespace
}  // namespace mneme
