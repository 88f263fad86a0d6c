#include "mneme/generate/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "mneme/cache/presets.h"
#include "mneme/generate/logits.h"
#include "mneme/generate/seq2seq_lm.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

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

class BeamSearchTest : public ::testing::Test {
 protected:
  std::shared_ptr<const CausalLM> model_ = golden_model("llama");

  /// Log-probabilities of what follows a text.
  std::vector<float> next(const Ids& text) const {
    const at::Tensor logits =
        model_->forward({.input_ids = tensor_of({text}), .logits_to_keep = 1}).logits.contiguous();
    std::vector<float> row(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel());
    log_softmax(row);
    return row;
  }
};

// From public reports (E5): the score counts new tokens only, and with room for all texts the best one is found. The
// default of early_stopping keeps transformers' heuristic, which promises no optimum.
TEST_F(BeamSearchTest, WithRoomForAllTextsTheBestIsFound) {
  const Ids allowed = {3, 40, 77, 200, 511};
  const std::int64_t eos = 77;
  for (const std::int64_t n_prompt : {1, 50}) {
    const Ids prompt = some_ids(n_prompt);
    struct Text {
      Ids ids;
      double score;
    };
    std::vector<Text> ended, running = {{{}, 0}};
    for (int step = 0; step < 4; ++step) {
      std::vector<Text> longer;
      for (const Text& text : running) {
        Ids whole = prompt;
        whole.insert(whole.end(), text.ids.begin(), text.ids.end());
        const std::vector<float> logprobs = next(whole);
        for (const std::int64_t id : allowed) {
          Text more = text;
          more.ids.push_back(id);
          more.score += logprobs[static_cast<std::size_t>(id)];
          (id == eos || step == 3 ? ended : longer).push_back(more);
        }
      }
      running = longer;
    }
    for (const double penalty : {-1.0, 0.0, 1.0, 2.0}) {
      const auto score = [&](const Text& text) {
        return text.score / std::pow(static_cast<double>(text.ids.size()), penalty);
      };
      const Text best = *std::ranges::max_element(ended, {}, score);
      const GenerateOutput output =
          model_->generate(tensor_of({prompt}), {.max_new_tokens = 4,
                                                 .num_beams = 500,
                                                 .length_penalty = penalty,
                                                 .early_stopping = EarlyStopping::kNever,
                                                 .prefix_allowed_tokens_fn = [&](auto, auto) { return allowed; },
                                                 .eos_token_id = Ids{eos}});
      EXPECT_EQ(output.new_tokens[0], best.ids) << n_prompt << " penalty " << penalty;
      EXPECT_NEAR(output.sequences_scores[0], score(best), 1e-4);
    }
  }
}

TEST_F(BeamSearchTest, APromptsBeamsDoNotDependOnItsBatch) {
  const Rows prompts = {some_ids(9, 1), some_ids(1, 2), some_ids(70, 3)};
  for (const char* name : {"llama", "mistral_window8", "mamba"}) {
    const auto model = golden_model(name);
    const GenerateOptions options{.max_new_tokens = 10,
                                  .num_beams = 3,
                                  .num_return_sequences = 2,
                                  .eos_token_id = Ids{5, 6, 7, 8, 9, 10, 100, 101, 102, 103, 104}};
    const GenerateOutput batch = model->generate(left_padded(prompts), options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const GenerateOutput alone = model->generate(tensor_of({prompts[i]}), options);
      for (std::size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(alone.new_tokens[k], batch.new_tokens[2 * i + k]) << name << " " << i;
        EXPECT_EQ(alone.sequences_scores[k], batch.sequences_scores[2 * i + k]);
      }
    }
  }
}

/// A score is that of the text computed at once, on a cache of the same kind: beams share and reorder blocks, and must
/// not mix them up.
TEST_F(BeamSearchTest, QuantizedBeamsAreTheirOwnRecomputation) {
  for (const char* backend : {"int8", "quanto", "kivi"}) {
    const Ids prompt = some_ids(120);
    const CacheConfig config{.backend = backend, .residual_length = std::string(backend) == "int8" ? 0 : 64};
    const GenerateOutput output = model_->generate(
        tensor_of({prompt}), {.max_new_tokens = 30, .num_beams = 4, .num_return_sequences = 4, .cache_config = config});
    EXPECT_EQ(output.cache_implementation, "quantized");
    for (std::size_t k = 0; k < 4; ++k) {
      Ids text = prompt;
      double sum = 0;
      QuantizedCache cache(model_->config(), config);
      for (const std::int64_t id : output.new_tokens[k]) {
        const auto held = static_cast<std::ptrdiff_t>(cache.seq_length());
        const at::Tensor logits =
            model_
                ->forward({.input_ids = tensor_of({Ids(text.begin() + held, text.end())}), .logits_to_keep = 1}, &cache)
                .logits.contiguous();
        std::vector<float> row(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + 512);
        log_softmax(row);
        sum += row[static_cast<std::size_t>(id)];
        text.push_back(id);
      }
      EXPECT_NEAR(output.sequences_scores[k], sum / 30, 1e-5) << backend << " " << k;
    }
  }
}

// From public reports (E3): a prefix cached once, beams and several texts from it, the caller's cache as it was.
TEST_F(BeamSearchTest, ACallersCacheIsExpandedInACopy) {
  const Ids prompt = some_ids(80);
  DynamicCache cache(model_->config());
  model_->generate(tensor_of({Ids(prompt.begin(), prompt.end() - 1)}), {.max_new_tokens = 0}, &cache);
  for (const GenerateOptions& options :
       {GenerateOptions{.max_new_tokens = 8, .num_beams = 4, .num_return_sequences = 4},
        GenerateOptions{.max_new_tokens = 8, .do_sample = true, .num_return_sequences = 8, .seed = 3}}) {
    const GenerateOutput cold = model_->generate(tensor_of({prompt}), options);
    const GenerateOutput warm = model_->generate(tensor_of({prompt}), options, &cache);
    EXPECT_EQ(warm.new_tokens, cold.new_tokens);
    EXPECT_EQ(warm.cached_tokens, 79);
    EXPECT_EQ(warm.prompt_tokens, 80);
    EXPECT_EQ(cache.seq_length(), 79);
    EXPECT_EQ(cache.n_sequences(), 1);
  }
}

// From public reports (E4): two sources in a batch, cross-attention by beam.
TEST_F(BeamSearchTest, EncoderDecodersKeepTheirSourcesApart) {
  const auto t5 = AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("t5"), {.dtype = at::kFloat});
  const Rows sources = {some_ids(7, 1), some_ids(30, 2)};
  const GenerateOptions options{.max_new_tokens = 10, .num_beams = 3, .num_return_sequences = 3};
  const GenerateOutput batch = t5->generate(left_padded(sources), options);
  for (std::size_t i = 0; i < 2; ++i) {
    const GenerateOutput alone = t5->generate(tensor_of({sources[i]}), options);
    EXPECT_EQ(alone.new_tokens, Rows(batch.new_tokens.begin() + static_cast<std::ptrdiff_t>(3 * i),
                                     batch.new_tokens.begin() + static_cast<std::ptrdiff_t>(3 * i + 3)));
  }
}

TEST_F(BeamSearchTest, OneBeamIsGreedyAndBeamsAreSorted) {
  const Ids prompt = some_ids(9);
  EXPECT_EQ(model_->generate(tensor_of({prompt}), {.max_new_tokens = 9, .num_beams = 1}).new_tokens,
            model_->generate(tensor_of({prompt}), {.max_new_tokens = 9}).new_tokens);
  const GenerateOutput output = model_->generate(
      tensor_of({prompt}), {.max_new_tokens = 9, .num_beams = 6, .num_return_sequences = 6, .output_logprobs = true});
  EXPECT_TRUE(std::ranges::is_sorted(output.sequences_scores, std::greater<>()));
  for (std::size_t k = 0; k < 6; ++k) {
    EXPECT_EQ(output.finish_reasons[k], "length");
    double sum = 0;
    for (const double logprob : output.token_logprobs[k]) sum += logprob;
    EXPECT_NEAR(output.sequences_scores[k], sum / 9, 1e-5);
  }
  const GenerateOutput none = model_->generate(tensor_of({prompt}), {.max_new_tokens = 0, .num_beams = 3});
  EXPECT_TRUE(none.new_tokens[0].empty());
}

TEST_F(BeamSearchTest, DrawnBeamsRepeatWithTheirSeedAndAreRealTexts) {
  const Ids prompt = some_ids(9);
  GenerateOptions options{.max_new_tokens = 8,
                          .do_sample = true,
                          .num_beams = 4,
                          .num_return_sequences = 4,
                          .top_k = 20,
                          .seed = 5,
                          .output_logprobs = true};
  const GenerateOutput first = model_->generate(tensor_of({prompt}), options);
  EXPECT_EQ(model_->generate(tensor_of({prompt}), options).new_tokens, first.new_tokens);
  EXPECT_EQ(std::set<Ids>(first.new_tokens.begin(), first.new_tokens.end()).size(), 4u);
  options.cache_implementation = "static";
  EXPECT_EQ(model_->generate(tensor_of({prompt}), options).new_tokens, first.new_tokens);
  options.seed = 6;
  EXPECT_NE(model_->generate(tensor_of({prompt}), options).new_tokens, first.new_tokens);
}

/// The first of one step's drawn beams is a draw from the distribution itself.
TEST_F(BeamSearchTest, DrawnBeamsFollowTheDistribution) {
  const Ids prompt = some_ids(9);
  std::vector<float> logprobs = next(prompt);
  const Ids allowed = {3, 17, 40, 99};
  double total = 0;
  for (const std::int64_t id : allowed) total += std::exp(logprobs[static_cast<std::size_t>(id)]);
  std::map<std::int64_t, int> counts;
  const int n = 2000;
  for (int i = 0; i < n; ++i) {
    const GenerateOutput output =
        model_->generate(tensor_of({prompt}), {.max_new_tokens = 1,
                                               .do_sample = true,
                                               .num_beams = 2,
                                               .num_return_sequences = 2,
                                               .top_k = 0,
                                               .seed = static_cast<std::uint64_t>(i),
                                               .prefix_allowed_tokens_fn = [&](auto, auto) { return allowed; }});
    ++counts[output.new_tokens[0][0]];
    ++counts[output.new_tokens[1][0]];
  }
  // Two of four without putting back: p_i (1 + sum_{j != i} p_j / (1 - p_j)).
  double chi_square = 0;
  for (const std::int64_t id : allowed) {
    const double p = std::exp(logprobs[static_cast<std::size_t>(id)]) / total;
    double included = p;
    for (const std::int64_t other : allowed) {
      const double q = std::exp(logprobs[static_cast<std::size_t>(other)]) / total;
      if (other != id) included += p * q / (1 - q);
    }
    chi_square += std::pow(counts[id] - n * included, 2) / (n * included);
  }
  EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom, 0.1 %
}

TEST_F(BeamSearchTest, EndsWhenCancelledAndSaysWhatCannotBe) {
  int n = 0;
  const GenerateOutput output = model_->generate(
      tensor_of({some_ids(9)}),
      {.max_new_tokens = 20, .num_beams = 3, .num_return_sequences = 3, .cancelled = [&] { return ++n == 4; }});
  EXPECT_EQ(output.finish_reasons, std::vector<std::string>(3, "cancelled"));
  EXPECT_EQ(output.new_tokens[0].size(), 4u);
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition,
                     [&] {
                       Ids all(512);
                       for (std::size_t i = 0; i < 512; ++i) all[i] = static_cast<std::int64_t>(i);
                       model_->generate(tensor_of({some_ids(9)}),
                                        {.max_new_tokens = 4, .num_beams = 3, .suppress_tokens = all});
                     }),
              HasSubstr("banned"));
}

TEST_F(BeamSearchTest, StepsAreKeptOnRequest) {
  const GenerateOutput output =
      model_->generate(tensor_of({some_ids(9)}),
                       {.max_new_tokens = 3, .num_beams = 2, .output_step_logits = true, .output_scores = true});
  ASSERT_EQ(output.logits.size(), 3u);
  ASSERT_EQ(output.scores.size(), 3u);
  EXPECT_EQ(output.logits[0].sizes(), at::IntArrayRef({2, 512}));
  EXPECT_LT((output.scores[1].exp().sum(1) - 1).abs().max().item<float>(), 1e-4);
}

}  // namespace
}  // namespace mneme
