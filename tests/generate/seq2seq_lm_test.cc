#include "mneme/generate/seq2seq_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "mneme/base/thread_pool.h"
#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::left_padded;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

class Seq2SeqLMTest : public ::testing::Test {
 protected:
  static Seq2SeqInput input_of(const Rows& sources, const Rows& decoder_ids = {}) {
    const EncodedInputs source = left_padded(sources);
    Seq2SeqInput input{.input_ids = source.input_ids, .attention_mask = source.attention_mask};
    if (decoder_ids.empty()) return input;
    const EncodedInputs decoder = left_padded(decoder_ids);
    input.decoder_input_ids = decoder.input_ids, input.decoder_attention_mask = decoder.attention_mask;
    return input;
  }
  Rows new_tokens(const Seq2SeqInput& input, const GenerateOptions& options = {.max_new_tokens = 12}) const {
    return model_->generate(input, options).new_tokens;
  }
  static inline const std::string path_ = testing::golden_path("t5");
  std::shared_ptr<const Seq2SeqLM> model_ = AutoModelForSeq2SeqLM::from_pretrained(path_, {.dtype = at::kFloat});
};

class Seq2SeqGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string path_ = testing::golden_path(GetParam());
  std::shared_ptr<const Seq2SeqLM> model_ = AutoModelForSeq2SeqLM::from_pretrained(path_, {.dtype = at::kFloat});
};

INSTANTIATE_TEST_SUITE_P(Models, Seq2SeqGoldenTest, ::testing::Values("t5", "bart", "mbart", "marian"),
                         [](const auto& test) { return test.param; });

TEST_P(Seq2SeqGoldenTest, GreedyIsTransformersGreedyOnEveryCache) {
  for (const Json& item : read_json_file(path_ + "/golden.json").at("cases")) {
    if (item["mode"] != "greedy") continue;
    const auto sources = item["input_ids"].get<Rows>();
    Seq2SeqInput input{.input_ids = tensor_of(sources),
                       .attention_mask = tensor_of(item["attention_mask"].get<Rows>())};
    if (item.contains("decoder_input_ids")) input.decoder_input_ids = tensor_of(item["decoder_input_ids"].get<Rows>());
    SCOPED_TRACE(input.input_ids.sizes());
    GenerateOptions options{.max_new_tokens = item["max_new_tokens"].get<std::int64_t>(), .output_logits = true};
    at::Tensor expected;
    for (const char* kind : {"dynamic", "static", "none"}) {
      options.cache_implementation.reset(), options.use_cache.reset();
      if (kind == std::string("none")) options.use_cache = false;
      if (kind == std::string("static")) options.cache_implementation = kind;
      for (const std::int64_t chunk : {2048, 5}) {
        options.prefill_chunk_size = chunk;
        const GenerateOutput output = model_->generate(input, options);
        ASSERT_EQ(testing::rows_of(output.sequences), item["sequences"].get<Rows>()) << kind;
        EXPECT_EQ(output.cache_implementation, kind);
        EXPECT_GT(output.cache_bytes, 0);
        EXPECT_NEAR(output.min_gap, item["min_gap"].get<float>(), 1e-3);
        if (!expected.defined()) {
          expected = output.prompt_logits;
          const auto wanted = item.value("last_logits", std::vector<std::vector<float>>());
          for (std::size_t i = 0; i < wanted.size(); ++i) {
            const at::Tensor row = at::tensor(wanted[i]);
            ASSERT_LE((expected[static_cast<std::int64_t>(i)] - row).abs().max().item<float>(),
                      1e-4f * row.abs().max().item<float>());
          }
        }
        ASSERT_TRUE(at::equal(output.prompt_logits, expected)) << kind << " chunk " << chunk;
      }
    }
  }
}

TEST_F(Seq2SeqLMTest, BatchedRowsAreSingleRowsBitForBitOnAnyThreads) {
  const Rows sources = {some_ids(3, 1), some_ids(150, 2), some_ids(64, 3), some_ids(1, 4)};
  const Rows decoder_ids = {{0}, {0, 5, 6, 7}, {0, 8}, {0, 9, 10}};
  const GenerateOptions options{.max_new_tokens = 20, .output_logits = true};
  const GenerateOutput together = model_->generate(input_of(sources, decoder_ids), options);
  const int threads_before = ThreadPool::global().size();
  for (const int threads : {1, 3}) {
    ThreadPool::global().resize(threads);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const GenerateOutput alone = model_->generate(input_of({sources[i]}, {decoder_ids[i]}), options);
      ASSERT_EQ(alone.new_tokens[0], together.new_tokens[i]);
      ASSERT_TRUE(at::equal(alone.prompt_logits[0], together.prompt_logits[static_cast<std::int64_t>(i)]));
    }
  }
  ThreadPool::global().resize(threads_before);
}

TEST_F(Seq2SeqLMTest, SequencesBeginWithWhatTheDecoderStartsFrom) {
  const Rows sources = {some_ids(5), some_ids(9, 2)};
  const GenerateOutput output = model_->generate(input_of(sources), {.max_new_tokens = 4});
  EXPECT_EQ(output.sequences.sizes(), at::IntArrayRef({2, 5}));
  EXPECT_EQ(testing::rows_of(output.sequences)[0][0], 0);
  EXPECT_EQ(output.prompt_tokens, 14 + 2);
  EXPECT_EQ(output.cache_length, 4);  // the last token is never fed back
  EXPECT_EQ(new_tokens(input_of(sources, {{0}, {0}})), new_tokens(input_of(sources)));
  EXPECT_EQ(model_->generate(input_of(sources), {.max_new_tokens = 3, .decoder_start_token_id = 7}).new_tokens,
            model_->generate(input_of(sources, {{7}, {7}}), {.max_new_tokens = 3}).new_tokens);
  EXPECT_EQ(model_->generate(input_of({some_ids(40)})).sequences.size(1), 20);  // max_length counts the decoder's
}

TEST_F(Seq2SeqLMTest, TheStartComesFromEitherFileElseIsBos) {
  const auto with = [](const Json& generation, const Json& config) {
    const testing::TempFolder folder;
    std::filesystem::copy(path_ + "/model.safetensors", folder.path() + "/model.safetensors");
    Json both = read_json_file(path_ + "/config.json");
    both.erase("decoder_start_token_id");
    both.update(config);
    folder.write("config.json", both.dump());
    folder.write("generation_config.json", generation.dump());
    const auto model = AutoModelForSeq2SeqLM::from_pretrained(folder.path(), {.dtype = at::kFloat});
    return model->generate(tensor_of({{5, 6}}), {.max_new_tokens = 1}).sequences[0][0].item<std::int64_t>();
  };
  EXPECT_EQ(with({{"decoder_start_token_id", 11}, {"bos_token_id", 13}}, {{"decoder_start_token_id", 12}}), 11);
  EXPECT_EQ(with({{"bos_token_id", 13}}, {{"decoder_start_token_id", 12}}), 12);
  EXPECT_EQ(with({{"bos_token_id", 13}}, Json::object()), 13);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { with(Json::object(), Json::object()); }),
              HasSubstr("decoder_start_token_id"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       with({{"decoder_start_token_id", 512}}, Json::object());
                     }),
              HasSubstr("512"));
}

TEST_F(Seq2SeqLMTest, EosEndsARowAndPadsIt) {
  const Rows sources = {some_ids(5), some_ids(9, 2)};
  const Rows free = new_tokens(input_of(sources));
  const Ids eos = {free[0][2]};
  const GenerateOutput output =
      model_->generate(input_of(sources), {.max_new_tokens = 12, .eos_token_id = eos, .pad_token_id = 7});
  EXPECT_EQ(output.finish_reasons[0], "stop");
  const Ids expected(free[0].begin(), std::find(free[0].begin(), free[0].end(), eos[0]) + 1);
  EXPECT_EQ(output.new_tokens[0], expected);
  const Ids alone = model_->generate(input_of({sources[1]}), {.max_new_tokens = 12, .eos_token_id = eos}).new_tokens[0];
  EXPECT_EQ(output.new_tokens[1], alone);
}

TEST_F(Seq2SeqLMTest, SampledRowsDoNotDependOnTheirBatchOrCache) {
  const Rows sources = {some_ids(5), some_ids(90, 2)};
  GenerateOptions options{.max_new_tokens = 15, .do_sample = true, .temperature = 2.0, .top_k = 0, .seed = 3};
  const Rows expected = new_tokens(input_of(sources), options);
  EXPECT_EQ(new_tokens(input_of({sources[1]}), options)[0], expected[1]);
  options.cache_implementation = "static";
  EXPECT_EQ(new_tokens(input_of(sources), options), expected);
  options.seed = 4;
  EXPECT_NE(new_tokens(input_of(sources), options), expected);
}

TEST_F(Seq2SeqLMTest, ACacheContinuesAndItsSourceIsLeftOut) {
  const Rows sources = {some_ids(5), some_ids(70, 2)};
  const GenerateOutput whole = model_->generate(input_of(sources), {.max_new_tokens = 12});
  for (int kind = 0; kind < 3; ++kind) {
    EncoderDecoderCache cache =
        kind == 0
            ? model_->dynamic_cache()
            : EncoderDecoderCache(StaticCache(model_->config(), {.max_cache_len = 13}),
                                  kind == 1 ? Cache(DynamicCache(model_->config().cross_cache_shape))
                                            : StaticCache(model_->config().cross_cache_shape, {.max_cache_len = 70}));
    const GenerateOutput first = model_->generate(input_of(sources), {.max_new_tokens = 5}, &cache);
    EXPECT_EQ(cache.seq_length(), 5);
    EncoderDecoderCache fork = cache.copy();
    const GenerateOutput rest =
        model_->generate(Seq2SeqInput{.decoder_input_ids = first.sequences}, {.max_new_tokens = 7}, &cache);
    EXPECT_TRUE(at::equal(rest.sequences, whole.sequences)) << kind;
    EXPECT_EQ(rest.cached_tokens, 2 * 5 + 75);
    fork.crop(-3);
    EXPECT_EQ(
        model_->generate(Seq2SeqInput{.decoder_input_ids = first.sequences}, {.max_new_tokens = 7}, &fork).new_tokens,
        rest.new_tokens);
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(input_of(sources), {}, &cache); }),
                AllOf(HasSubstr("70 encoder states"), HasSubstr("reset()")));
    cache.reset();
    EXPECT_EQ(model_->generate(input_of(sources), {.max_new_tokens = 5}, &cache).new_tokens, first.new_tokens);
  }
}

// Sources of several blocks, so that some are sealed in both parts.
TEST_F(Seq2SeqLMTest, OffloadedCachesGiveTheSameBits) {
  const Seq2SeqInput input = input_of({some_ids(300), some_ids(70, 2)}, {some_ids(130, 3), some_ids(64, 4)});
  GenerateOptions options{.max_new_tokens = 12, .output_logits = true};
  const GenerateOutput expected = model_->generate(input, options);
  for (const char* kind : {"offloaded", "offloaded_static"}) {
    options.cache_implementation = kind;
    const GenerateOutput output = model_->generate(input, options);
    EXPECT_EQ(output.new_tokens, expected.new_tokens) << kind;
    EXPECT_TRUE(at::equal(output.prompt_logits, expected.prompt_logits)) << kind;
    EXPECT_GT(output.cache_bytes_offloaded, 0) << kind;
  }
}

TEST_F(Seq2SeqLMTest, QuantizedCachesDependOnTheirCodecAlone) {
  const Rows sources = {some_ids(300), some_ids(70, 2)}, decoder_ids = {some_ids(130, 3), some_ids(64, 4)};
  const GenerateOutput exact =
      model_->generate(input_of(sources, decoder_ids), {.max_new_tokens = 1, .output_logits = true});
  for (const char* backend : {"int8", "kivi"}) {
    GenerateOptions options{.max_new_tokens = 12, .cache_implementation = "quantized", .output_logits = true};
    options.cache_config.backend = backend;
    options.cache_config.residual_length = 0;
    // Scores of random weights without a scale are so sharp that 4 bits choose other keys.
    if (backend == std::string("kivi")) options.cache_config.nbits = 8;
    const GenerateOutput expected = model_->generate(input_of(sources, decoder_ids), options);
    EXPECT_FALSE(at::equal(expected.prompt_logits, exact.prompt_logits)) << backend;
    const float largest = exact.prompt_logits.abs().max().item<float>();
    EXPECT_LE((expected.prompt_logits - exact.prompt_logits).abs().max().item<float>(), 0.2f * largest) << backend;
    const auto expect_same = [&](const GenerateOptions& changed) {
      for (std::size_t i = 0; i < 2; ++i) {
        const GenerateOutput output = model_->generate(input_of({sources[i]}, {decoder_ids[i]}), changed);
        EXPECT_EQ(output.new_tokens[0], expected.new_tokens[i]) << backend;
        EXPECT_TRUE(at::equal(output.prompt_logits[0], expected.prompt_logits[static_cast<std::int64_t>(i)]));
      }
    };
    expect_same(options);
    options.prefill_chunk_size = 7;
    expect_same(options);
    options.cache_config.offloading = true;
    expect_same(options);
    options.max_cache_len = 150;
    expect_same(options);
  }
}

// Each part is a cache, and is saved as one.
TEST_F(Seq2SeqLMTest, ACacheSavedInTwoFilesContinues) {
  const testing::TempFolder folder;
  const Rows sources = {some_ids(150), some_ids(70, 2)};
  EncoderDecoderCache cache = model_->dynamic_cache();
  const GenerateOutput first = model_->generate(input_of(sources), {.max_new_tokens = 70}, &cache);
  cache.self_attention_cache().save(folder.path() + "/self.safetensors");
  cache.cross_attention_cache().save(folder.path() + "/cross.safetensors");
  EncoderDecoderCache restored(Cache::load(folder.path() + "/self.safetensors", model_->config()),
                               Cache::load(folder.path() + "/cross.safetensors", model_->config().cross_cache_shape));
  const Seq2SeqInput rest{.decoder_input_ids = first.sequences};
  EXPECT_EQ(model_->generate(rest, {.max_new_tokens = 9}, &restored).new_tokens,
            model_->generate(rest, {.max_new_tokens = 9}, &cache).new_tokens);
}

// As beams do: each source several times, its states written once.
TEST_F(Seq2SeqLMTest, RepeatedRowsShareTheirSource) {
  EncoderDecoderCache cache = model_->dynamic_cache();
  const Rows sources = {some_ids(100), some_ids(70, 2)};
  model_->forward(input_of(sources, {{0}, {0}}), &cache);
  const std::int64_t before = cache.cross_attention_cache().n_bytes();
  cache.repeat_interleave(3);
  EXPECT_EQ(cache.cross_attention_cache().n_bytes(), before);
  const Rows rows = {{0, 5}, {0, 6}, {0, 7}, {0, 8}, {0, 9}, {0, 10}};
  const GenerateOutput output =
      model_->generate(Seq2SeqInput{.decoder_input_ids = tensor_of(rows)}, {.max_new_tokens = 9}, &cache);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(output.new_tokens[i], new_tokens(input_of({sources[i / 3]}, {rows[i]}), {.max_new_tokens = 9})[0]);
  }
}

TEST_F(Seq2SeqLMTest, WhatCannotBeIsRefusedBeforeTheEncoderRuns) {
  EncoderDecoderCache cache = model_->dynamic_cache();
  const auto refused = [&](const Seq2SeqInput& input, const GenerateOptions& options = {}) {
    return thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(input, options, &cache); });
  };
  const at::Tensor source = tensor_of({some_ids(5)});
  EXPECT_THAT(refused({.input_ids = at::zeros({1, 0}, at::kLong)}), HasSubstr("empty prompt"));
  EXPECT_THAT(refused(input_of({some_ids(3), {}})), HasSubstr("empty prompt"));
  EXPECT_THAT(refused({.input_ids = at::zeros({0, 3}, at::kLong)}), HasSubstr("no prompt"));
  EXPECT_THAT(refused({}), HasSubstr("nothing to decode from"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(Seq2SeqInput{}); }), HasSubstr("no prompt"));
  EXPECT_THAT(refused({.input_ids = tensor_of({{512}})}), HasSubstr("512"));
  EXPECT_THAT(refused({.input_ids = source, .decoder_input_ids = tensor_of({{0, -1}})}), HasSubstr("-1"));
  EXPECT_THAT(refused({.input_ids = source, .decoder_input_ids = at::zeros({1, 0}, at::kLong)}),
              HasSubstr("empty prompt"));
  EXPECT_THAT(refused({.input_ids = source, .decoder_input_ids = tensor_of({{0}, {0}})}),
              AllOf(HasSubstr("2 sequences of decoder_input_ids"), HasSubstr("1 prompts")));
  EXPECT_THAT(refused({.input_ids = source}, {.cache_implementation = "static"}), HasSubstr("cache_implementation"));
  EXPECT_THAT(refused({.input_ids = source}, {.use_cache = false}), HasSubstr("use_cache"));
  EXPECT_THAT(refused({.input_ids = source, .decoder_input_ids = tensor_of({some_ids(30)})}, {.max_length = 30}),
              HasSubstr("max_length = 30"));
  EXPECT_FALSE(cache.is_written());
  EXPECT_EQ(cache.n_sequences(), 0);

  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       model_->generate(source,
                                        {.max_new_tokens = 9, .cache_implementation = "static", .max_cache_len = 9});
                     }),
              AllOf(HasSubstr("prompt of 1 + 9"), HasSubstr("capacity of 9")));
  EncoderDecoderCache small(DynamicCache(model_->config()),
                            StaticCache(model_->config().cross_cache_shape, {.max_cache_len = 4}));
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { model_->generate(source, {}, &small); }),
              AllOf(HasSubstr("5"), HasSubstr("capacity of 4")));
  EXPECT_FALSE(small.is_written());
}

TEST_F(Seq2SeqLMTest, LoadersRefuseTheOtherKind) {
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [] { AutoModelForCausalLM::from_pretrained(path_); }),
              HasSubstr("AutoModelForSeq2SeqLM"));
  EXPECT_THAT(
      thrown(ErrorKind::kUnsupported, [] { AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("llama")); }),
      HasSubstr("AutoModelForCausalLM"));
}

TEST_F(Seq2SeqLMTest, ConcurrentThreadsWithACacheEachAreCorrect) {
  const Rows sources = {some_ids(30, 1), some_ids(150, 2), some_ids(7, 3)};
  Rows expected, got(sources.size());
  for (const Ids& source : sources) expected.push_back(new_tokens(input_of({source}))[0]);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = new_tokens(input_of({sources[i]}))[0]; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, expected);
}

TEST_F(Seq2SeqLMTest, OtherDtypesGiveTheSameOnEveryCache) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const auto model = AutoModelForSeq2SeqLM::from_pretrained(path_, {.dtype = dtype});
    const Seq2SeqInput input = input_of({some_ids(70), some_ids(5, 2)});
    const Rows expected = model->generate(input, {.max_new_tokens = 12}).new_tokens;
    EXPECT_EQ(model->generate(input, {.max_new_tokens = 12, .use_cache = false}).new_tokens, expected);
    EXPECT_EQ(model->generate(input, {.max_new_tokens = 12, .cache_implementation = "static"}).new_tokens, expected);
  }
}

}  // namespace
}  // namespace mneme
