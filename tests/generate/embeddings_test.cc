// Generating from vectors instead of ids, and from positions that are given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "mneme/generate/seq2seq_lm.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using ::testing::HasSubstr;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

enum class Side { kLeft, kRight, kBoth };

/// Rows with padding on a side.
EncodedInputs padded(const Rows& rows, Side side) {
  const std::int64_t n_columns = 44;
  EncodedInputs inputs{.input_ids = at::zeros({std::ssize(rows), n_columns}, at::kLong),
                       .attention_mask = at::zeros({std::ssize(rows), n_columns}, at::kLong)};
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    const Ids& row = rows[static_cast<std::size_t>(i)];
    const std::int64_t n = std::ssize(row), room = n_columns - n;
    const std::int64_t first = side == Side::kLeft ? room : side == Side::kRight ? 0 : room / 2;
    inputs.input_ids.select(0, i).narrow(0, first, n).copy_(at::tensor(row));
    inputs.attention_mask.select(0, i).narrow(0, first, n).fill_(1);
  }
  return inputs;
}

/// The same inputs as vectors; padding is what nothing may read.
EncodedInputs embedded(const CausalLM& model, const EncodedInputs& inputs) {
  at::Tensor vectors = model.embed(inputs.input_ids);
  if (inputs.attention_mask.defined())
    vectors = vectors.masked_fill(inputs.attention_mask.eq(0).unsqueeze(2), std::numeric_limits<float>::quiet_NaN());
  return {.attention_mask = inputs.attention_mask, .inputs_embeds = vectors, .position_ids = inputs.position_ids};
}

void expect_same(const GenerateOutput& a, const GenerateOutput& b, const std::string& what) {
  EXPECT_EQ(a.new_tokens, b.new_tokens) << what;
  EXPECT_EQ(a.cache_length, b.cache_length) << what;
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens) << what;
  ASSERT_EQ(a.logits.size(), b.logits.size()) << what;
  for (std::size_t t = 0; t < a.logits.size(); ++t) EXPECT_TRUE(at::equal(a.logits[t], b.logits[t])) << what;
}

class EmbeddingsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(EmbeddingsTest, OfTheIdsGiveTheSameBits) {
  const auto model = golden_model(GetParam());
  const bool recurrent = GetParam() == "mamba";
  const Rows prompts = {some_ids(40, 1), some_ids(23, 2), some_ids(1, 3)};
  std::vector<std::pair<const char*, GenerateOptions>> ways = {
      {"dynamic", {}},
      {"static", {.cache_implementation = "static"}},
      {"offloaded", {.cache_implementation = "offloaded"}},
      {"none", {.use_cache = false}},
      {"chunks of 7", {.prefill_chunk_size = 7}},
      {"beams", {.num_beams = 3, .num_return_sequences = 2}},
      {"drawn", {.do_sample = true, .num_return_sequences = 2, .seed = 5}},
      {"beams without a cache", {.num_beams = 2, .use_cache = false}}};
  if (!recurrent) ways.push_back({"quantized", {.cache_config = {.backend = "int8", .residual_length = 0}}});
  for (auto& [name, options] : ways) {
    options.max_new_tokens = 6;
    options.output_step_logits = true;
    for (const Side side : {Side::kLeft, Side::kRight, Side::kBoth}) {
      const EncodedInputs ids = padded(prompts, side);
      const GenerateOutput expected = model->generate(ids, options);
      const GenerateOutput output = model->generate(embedded(*model, ids), options);
      expect_same(output, expected, name);
      EXPECT_TRUE(at::equal(output.sequences, expected.sequences.narrow(1, 44, expected.sequences.size(1) - 44)));
      EncodedInputs both = embedded(*model, ids);
      both.input_ids = ids.input_ids;
      const GenerateOutput beside = model->generate(both, options);
      expect_same(beside, expected, name);
      EXPECT_TRUE(at::equal(beside.sequences, expected.sequences));
    }
  }
}

TEST_P(EmbeddingsTest, DraftsCheckAgainstThemToo) {
  const auto model = golden_model(GetParam());
  const at::Tensor ids = tensor_of({some_ids(30)});
  for (const bool use_cache : {true, false}) {
    const GenerateOptions plain{.max_new_tokens = 12, .use_cache = use_cache};
    GenerateOptions drafted = plain;
    drafted.prompt_lookup_num_tokens = 4;
    EXPECT_EQ(model->generate(embedded(*model, {.input_ids = ids}), drafted).new_tokens,
              model->generate(ids, plain).new_tokens);
    drafted.prompt_lookup_num_tokens.reset();
    drafted.assistant_model = model.get();
    drafted.assistant_confidence_threshold = 0;
    EncodedInputs both = embedded(*model, {.input_ids = ids});
    both.input_ids = ids;
    const GenerateOutput output = model->generate(both, drafted);
    EXPECT_EQ(output.new_tokens, model->generate(ids, plain).new_tokens);
    EXPECT_GT(output.accepted_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EmbeddingsTest,
                         ::testing::Values("llama", "mistral_window8", "gemma2_window8", "gpt2", "granite", "mamba",
                                           "llama4_chunk8"),
                         [](const auto& test) { return test.param; });

class EmbeddingsOfLlamaTest : public ::testing::Test {
 protected:
  std::string refused(const EncodedInputs& inputs, const GenerateOptions& options = {}) const {
    return thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(inputs, options); });
  }
  std::shared_ptr<const CausalLM> model_ = golden_model("llama");
  const at::Tensor ids_ = tensor_of({some_ids(20)});
  const at::Tensor vectors_ = model_->embed(ids_);
};

TEST_F(EmbeddingsOfLlamaTest, EmbedGivesTheRowsOfTheTable) {
  EXPECT_TRUE(at::equal(vectors_[0], testing::embedding_table("llama").index_select(0, ids_[0])));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { model_->embed(tensor_of({{512}})); }), HasSubstr("512"));
}

// Vectors that no id has: what is read is what was given.
TEST_F(EmbeddingsOfLlamaTest, AnyVectorsAreRead) {
  const at::Tensor soft = vectors_ * 0.5 + 0.1;
  const GenerateOutput output =
      model_->generate({.inputs_embeds = soft}, {.max_new_tokens = 1, .output_step_logits = true});
  EXPECT_TRUE(at::equal(output.logits[0], model_->forward({.inputs_embeds = soft}).logits.select(1, -1)));
  EncodedInputs beside{.input_ids = ids_, .inputs_embeds = soft};
  EXPECT_TRUE(at::equal(model_->generate(beside, {.max_new_tokens = 1, .output_step_logits = true}).logits[0],
                        output.logits[0]));
}

// Parity: where ids are not known, processors see new tokens alone; lengths count all tokens.
TEST_F(EmbeddingsOfLlamaTest, ProcessorsSeeNewTokensAndLengthsCountAll) {
  std::vector<std::int64_t> lengths;
  GenerateOptions options{.max_length = 24, .min_length = 23, .output_step_logits = true};
  options.logits_processors = {[&](std::span<float>, const SequenceView& at) {
    EXPECT_EQ(at.prompt_length, 0);
    EXPECT_EQ(at.n_without_ids, 20);
    lengths.push_back(std::ssize(at.tokens));
  }};
  const Ids first = model_->generate(ids_, {.max_new_tokens = 1}).new_tokens[0];
  options.eos_token_id = first;  // it would end at once
  const GenerateOutput output = model_->generate({.inputs_embeds = vectors_}, options);
  EXPECT_EQ(lengths, Ids({0, 1, 2, 3}));
  GenerateOptions by_ids = options;
  by_ids.logits_processors.clear();
  EXPECT_EQ(output.new_tokens, model_->generate(ids_, by_ids).new_tokens);
}

TEST_F(EmbeddingsOfLlamaTest, ACacheHoldsTheirBeginning) {
  const GenerateOutput expected = model_->generate(ids_, {.max_new_tokens = 5});
  DynamicCache cache(model_->config());
  model_->forward({.inputs_embeds = vectors_.narrow(1, 0, 13)}, &cache);
  const GenerateOutput output = model_->generate({.inputs_embeds = vectors_}, {.max_new_tokens = 5}, &cache);
  EXPECT_EQ(output.new_tokens, expected.new_tokens);
  EXPECT_EQ(output.cached_tokens, 13);
  EXPECT_EQ(cache.seq_length(), 24);
}

TEST_F(EmbeddingsOfLlamaTest, HiddenStatesBeginWithThem) {
  const GenerateOutput output =
      model_->generate({.inputs_embeds = vectors_}, {.max_new_tokens = 2, .output_hidden_states = true});
  EXPECT_TRUE(at::equal(output.hidden_states[0][0], vectors_));
}

TEST_F(EmbeddingsOfLlamaTest, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(refused({}), HasSubstr("input_ids must be"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({3, 64})}), HasSubstr("[batch, tokens, 64]"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({1, 3, 63})}), HasSubstr("[batch, tokens, 64]"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({1, 0, 64})}), HasSubstr("empty"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({0, 3, 64})}), HasSubstr("empty"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({1, 3, 64}).requires_grad_()}), HasSubstr("grad"));
  EXPECT_THAT(refused({.inputs_embeds = at::zeros({1, 600, 64})}, {.max_new_tokens = 1}),
              HasSubstr("max_position_embeddings = 512"));
  EXPECT_THAT(refused({.input_ids = ids_, .inputs_embeds = at::zeros({1, 3, 64})}), HasSubstr("not the same tokens"));
  EXPECT_THAT(refused({.attention_mask = at::ones({1, 4}, at::kLong), .inputs_embeds = at::zeros({1, 3, 64})}),
              HasSubstr("4 entries"));
  EXPECT_THAT(refused({.attention_mask = at::zeros({1, 3}, at::kLong), .inputs_embeds = at::zeros({1, 3, 64})}),
              HasSubstr("all zeros"));
  EXPECT_THAT(refused({.inputs_embeds = vectors_}, {.max_new_tokens = 1, .guidance_scale = 2.0}),
              HasSubstr("negative_prompt_ids"));
  const auto t5 = AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("t5"), {.dtype = at::kFloat});
  EXPECT_THAT(thrown(ErrorKind::kUnsupported,
                     [&] {
                       t5->generate(EncodedInputs{.inputs_embeds = at::zeros({1, 3, 64})});
                     }),
              HasSubstr("encoder-decoder"));
}

class GivenPositionsTest : public ::testing::TestWithParam<std::string> {};

// New tokens count on from the last given position, as one pass with positions written out does.
TEST_P(GivenPositionsTest, GoOnFromTheLast) {
  const auto model = golden_model(GetParam());
  const Ids prompt = some_ids(18);
  Ids places;
  for (std::int64_t i = 0; i < 18; ++i) places.push_back(i < 9 ? i : 3 * i);
  for (const GenerateOptions& way :
       {GenerateOptions{}, GenerateOptions{.use_cache = false}, GenerateOptions{.prefill_chunk_size = 5},
        GenerateOptions{.prompt_lookup_num_tokens = 3}}) {
    GenerateOptions options = way;
    options.max_new_tokens = 8;
    options.eos_token_id = Ids{};
    options.output_step_logits = true;
    const EncodedInputs inputs{.input_ids = tensor_of({prompt}), .position_ids = tensor_of({places})};
    const GenerateOutput output = model->generate(inputs, options);
    Ids text = prompt, positions = places;
    for (std::size_t t = 0; t < 8; ++t) {
      const at::Tensor logits =
          model->forward({.input_ids = tensor_of({text}), .position_ids = tensor_of({positions})}).logits[0][-1];
      EXPECT_TRUE(at::equal(output.logits[t][0], logits)) << t;
      text.push_back(output.new_tokens[0][t]);
      positions.push_back(positions.back() + 1);
    }
    expect_same(model->generate(embedded(*model, inputs), options), output, "vectors");
  }
}

TEST_P(GivenPositionsTest, ThatAreCountedAreTheDefault) {
  const auto model = golden_model(GetParam());
  for (const Side side : {Side::kLeft, Side::kRight}) {
    EncodedInputs inputs = padded({some_ids(30, 1), some_ids(12, 2)}, side);
    const GenerateOptions options{.max_new_tokens = 5, .output_step_logits = true};
    const GenerateOutput expected = model->generate(inputs, options);
    inputs.position_ids = (inputs.attention_mask.cumsum(1) - 1).clamp_min(0);
    expect_same(model->generate(inputs, options), expected, "counted");
  }
}

TEST_P(GivenPositionsTest, ThatCannotBeAreRefused) {
  const auto model = golden_model(GetParam());
  const at::Tensor ids = tensor_of({some_ids(4)});
  const auto refused = [&](const at::Tensor& positions) {
    return thrown(ErrorKind::kInvalidArgument,
                  [&] { model->generate({.input_ids = ids, .position_ids = positions}, {.max_new_tokens = 10}); });
  };
  EXPECT_THAT(refused(tensor_of({{0, 1, -2, 3}})), HasSubstr("-2"));
  EXPECT_THAT(refused(tensor_of({{0, 1}})), HasSubstr("position_ids"));
  EXPECT_THAT(refused(at::zeros({1, 4})), HasSubstr("integers"));
  if (model->config().learned_positions) {
    EXPECT_THAT(refused(tensor_of({{0, 1, 2, 505}})), HasSubstr("506 + 10 new tokens"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GivenPositionsTest, ::testing::Values("llama", "gpt2", "mistral_window8"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mneme
