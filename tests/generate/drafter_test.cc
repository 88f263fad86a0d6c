// Drafts of every kind, on every kind of cache, give the text that there is without them.
#include "mneme/generate/drafter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mneme/cache/presets.h"
#include "mneme/generate/seq2seq_lm.h"
#include "tests/generate/golden.h"
#include "tests/support/random_model.h"
#include "tests/support/thrown.h"
#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

using testing::Checkpoint;
using testing::golden_model;
using ::testing::HasSubstr;
using testing::random_checkpoint;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using testing::thrown;
using testing::TinyModel;
using Ids = std::vector<std::int64_t>;

TEST(PromptLookupTest, FindsWhatFollowedTheLongestMatch) {
  PromptLookup lookup(3);
  const auto draft = [&](const Ids& tokens, std::int64_t most) { return lookup.draft({.tokens = tokens}, most); };
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 2, 3}, 2), Ids({4, 5}));
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 2, 3}, 10), Ids({4, 5, 2, 3}));
  EXPECT_EQ(draft({9, 3, 7, 1, 2, 3, 4, 2, 3}, 1), Ids({4}));  // two words go before one
  EXPECT_EQ(draft({1, 2, 3}, 5), Ids());
  EXPECT_EQ(draft({1}, 5), Ids());
  EXPECT_EQ(draft({4, 4}, 5), Ids({4}));
}

struct Way {
  const char* name;
  GenerateOptions options;
};

std::vector<Way> caches() {
  return {{"dynamic", {}},
          {"static", {.cache_implementation = "static"}},
          {"offloaded", {.cache_implementation = "offloaded"}},
          {"none", {.use_cache = false}},
          {"int8", {.cache_config = {.backend = "int8", .residual_length = 0}}},
          {"quanto", {.cache_config = {.backend = "quanto", .residual_length = 64}}},
          {"kivi, offloaded", {.cache_config = {.backend = "kivi", .residual_length = 64, .offloading = true}}}};
}

/// Text that repeats itself, so that some guesses are right and some wrong.
Ids prompt_of(std::int64_t n) {
  Ids prompt = some_ids(n / 2), again = prompt;
  prompt.insert(prompt.end(), again.begin(), again.end());
  return prompt;
}

// From public reports (K1): drafts that are the model's own, another model's, of lengths 1, 4 and 20.
class DraftTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DraftTest, TextsAreThoseWithoutDrafts) {
  const auto model = golden_model(GetParam()), other = golden_model("llama_rope3");
  for (const Way& way : caches()) {
    const bool encodes = way.options.cache_config.backend.has_value();
    if (encodes && GetParam().starts_with("mamba")) continue;
    for (const bool sampled : {false, true}) {
      GenerateOptions plain = way.options;
      plain.max_new_tokens = 30;
      plain.repetition_penalty = 1.05;
      if (sampled) plain.do_sample = true, plain.seed = 4, plain.temperature = 1.5;
      const at::Tensor prompt = tensor_of({prompt_of(100)});
      const Ids expected = model->generate(prompt, plain).new_tokens[0];
      const auto expect_same = [&](const char* what, GenerateOptions options, std::int64_t n) {
        const GenerateOutput output = model->generate(prompt, options);
        EXPECT_EQ(output.new_tokens[0], expected) << way.name << ", " << what << " " << n << (sampled ? " drawn" : "");
        EXPECT_EQ(output.decode_steps,
                  29 - output.accepted_tokens);  // K2: each round keeps what was right and one more
        if (way.options.use_cache.value_or(true)) {
          EXPECT_EQ(output.cache_length, 100 + 29);
        }
        return output;
      };
      for (const std::int64_t n : {1, 4, 20}) {
        GenerateOptions options = plain;
        options.prompt_lookup_num_tokens = n;
        expect_same("prompt lookup", options, n);
        options.prompt_lookup_num_tokens.reset();
        options.num_assistant_tokens = n;
        options.assistant_confidence_threshold = 0;
        options.assistant_model = other.get();
        expect_same("another model", options, n);
        options.assistant_model = model.get();
        const GenerateOutput own = expect_same("the model itself", options, n);
        if (!encodes) {
          EXPECT_EQ(own.accepted_tokens, own.draft_tokens) << way.name;
        }
        EXPECT_GT(own.accepted_tokens, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DraftTest, ::testing::Values("llama", "mistral_window8", "qwen3", "mamba"),
                         [](const auto& test) { return test.param; });

class DraftEndsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const CausalLM> model_ = golden_model("llama");
  Ids prompt_ = prompt_of(40);
};

TEST_F(DraftEndsTest, AnEosWithinADraftEndsTheText) {
  const Ids free = model_->generate(tensor_of({prompt_}), {.max_new_tokens = 20}).new_tokens[0];
  for (std::size_t end = 0; end < 12; ++end) {
    const GenerateOptions plain{.max_new_tokens = 20, .eos_token_id = Ids{free[end]}};
    GenerateOptions drafted = plain;
    drafted.assistant_model = model_.get();
    drafted.num_assistant_tokens = 5;
    drafted.assistant_confidence_threshold = 0;
    DynamicCache cache(model_->config());
    const GenerateOutput output = model_->generate(tensor_of({prompt_}), drafted, &cache);
    EXPECT_EQ(output.new_tokens, model_->generate(tensor_of({prompt_}), plain).new_tokens) << end;
    EXPECT_EQ(output.finish_reasons[0], "stop");
    EXPECT_EQ(cache.seq_length(), std::ssize(prompt_) + std::ssize(output.new_tokens[0]) - 1);
    // What the cache holds is good: the text goes on from it.
    Ids longer = prompt_;
    longer.insert(longer.end(), output.new_tokens[0].begin(), output.new_tokens[0].end());
    longer.push_back(9);
    EXPECT_EQ(model_->generate(tensor_of({longer}), {.max_new_tokens = 5}, &cache).new_tokens,
              model_->generate(tensor_of({longer}), {.max_new_tokens = 5}).new_tokens);
  }
}

TEST_F(DraftEndsTest, AStopStringWithinADraftEndsTheText) {
  const Ids free = model_->generate(tensor_of({prompt_}), {.max_new_tokens = 20}).new_tokens[0];
  GenerateOptions options{.max_new_tokens = 20,
                          .stop_strings = {fmt::format("{}><{}", free[3], free[4])},
                          .assistant_model = model_.get(),
                          .assistant_confidence_threshold = 0};
  options.tokenizer_decode = [](const Ids& ids) {
    std::string text;
    for (const std::int64_t id : ids) text += fmt::format("<{}>", id);
    return text;
  };
  const GenerateOutput output = model_->generate(tensor_of({prompt_}), options);
  EXPECT_EQ(output.new_tokens[0], Ids(free.begin(), free.begin() + 5));
  EXPECT_EQ(output.finish_reasons[0], "stop");
}

/// An assistant reads a long prompt in pieces and asks in between, as the model does.
TEST_F(DraftEndsTest, AnAssistantThatReadsALongPromptCanBeCancelled) {
  const Ids prompt = testing::some_ids(450);
  GenerateOptions options{.max_new_tokens = 9, .assistant_model = model_.get(), .assistant_confidence_threshold = 0};
  const GenerateOutput whole = model_->generate(tensor_of({prompt}), options);
  EXPECT_EQ(whole.new_tokens, model_->generate(tensor_of({prompt}), {.max_new_tokens = 9}).new_tokens);
  EXPECT_GT(whole.accepted_tokens, 0);
  int n_asked = 0;
  bool has_token = false;
  options.on_token = [&](std::int64_t, std::int64_t) { has_token = true; };
  options.cancelled = [&] { return has_token && ++n_asked > 1; };
  const GenerateOutput cancelled = model_->generate(tensor_of({prompt}), options);
  EXPECT_EQ(cancelled.draft_tokens, 0);
  EXPECT_EQ(cancelled.new_tokens[0], Ids(whole.new_tokens[0].begin(), whole.new_tokens[0].begin() + 2));
  EXPECT_EQ(cancelled.finish_reasons[0], "cancelled");
}

// From public reports (K3): prompt lookup without any eos.
TEST_F(DraftEndsTest, WithoutAnEosTheLimitEndsTheText) {
  const GenerateOptions options{.max_new_tokens = 17, .prompt_lookup_num_tokens = 6, .eos_token_id = Ids{}};
  const GenerateOutput output = model_->generate(tensor_of({prompt_}), options);
  EXPECT_EQ(output.new_tokens[0].size(), 17u);
  EXPECT_EQ(output.finish_reasons[0], "length");
  GenerateOptions none = options;
  none.max_new_tokens = 0;
  EXPECT_TRUE(model_->generate(tensor_of({prompt_}), none).new_tokens[0].empty());
}

TEST_F(DraftEndsTest, AStaticCacheIsNeverOverrun) {
  StaticCache cache(model_->config(), {.max_cache_len = 40 + 12});
  const GenerateOptions options{.max_new_tokens = 12, .assistant_model = model_.get(), .num_assistant_tokens = 20};
  EXPECT_EQ(model_->generate(tensor_of({prompt_}), options, &cache).new_tokens[0].size(), 12u);
}

// From public reports (K2): 20,000 draws by drafts, three to a text, agree with the exact distribution.
TEST_F(DraftEndsTest, DrawnTextsFollowTheModelsDistribution) {
  const auto other = golden_model("qwen2");
  const Ids allowed = {3, 17, 40, 99}, prompt = {5};
  const auto probabilities = [&](const Ids& text) {
    const at::Tensor logits = model_->forward({.input_ids = tensor_of({text}), .logits_to_keep = 1}).logits.flatten();
    return logits.index_select(0, at::tensor(allowed)).softmax(0);
  };
  std::map<Ids, int> counts;
  const int n = 6667;  // three draws each
  for (int i = 0; i < n; ++i) {
    ++counts[model_
                 ->generate(tensor_of({prompt}), {.max_new_tokens = 3,
                                                  .do_sample = true,
                                                  .top_k = 0,
                                                  .seed = static_cast<std::uint64_t>(i),
                                                  .prefix_allowed_tokens_fn = [&](auto, auto) { return allowed; },
                                                  .assistant_model = other.get(),
                                                  .num_assistant_tokens = 2,
                                                  .assistant_confidence_threshold = 0})
                 .new_tokens[0]];
  }
  double chi_square = 0;
  int n_cells = 0;
  for (std::size_t a = 0; a < 4; ++a) {
    const double pa = probabilities({5})[static_cast<std::int64_t>(a)].item<double>();
    for (std::size_t b = 0; b < 4; ++b) {
      const double pb = probabilities({5, allowed[a]})[static_cast<std::int64_t>(b)].item<double>();
      const at::Tensor last = probabilities({5, allowed[a], allowed[b]});
      for (std::size_t c = 0; c < 4; ++c) {
        const double expected = n * pa * pb * last[static_cast<std::int64_t>(c)].item<double>();
        const int count = counts[{allowed[a], allowed[b], allowed[c]}];
        if (expected < 5) continue;
        chi_square += std::pow(count - expected, 2) / expected;
        ++n_cells;
      }
    }
  }
  EXPECT_GT(n_cells, 10);
  EXPECT_LT(chi_square, n_cells + 4 * std::sqrt(2.0 * n_cells));
}

/// A model that recites a text over and over: each of its tokens, of which none comes twice, is followed by the next.
/// Its past does not matter, so its texts are known for every tokenizer.
class RecitingModel {
 public:
  RecitingModel(const std::string& text, int n_texts)
      : files_(n_texts), tokenizer_(Tokenizer::from_pretrained(files_.path())) {
    Checkpoint c = random_checkpoint("llama", {{"hidden_size", 512}, {"num_hidden_layers", 1}});
    for (const char* name : {"model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight",
                             "model.embed_tokens.weight", "lm_head.weight"})
      std::ranges::fill(c.tensors[name].values, 0.0f);
    for (std::size_t id = 0; id < 512; ++id) c.tensors["model.embed_tokens.weight"].values[id * 512 + id] = 1;
    const Ids ids = tokenizer_.encode(text, {.add_special_tokens = false});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto from = static_cast<std::size_t>(ids[i]), to = static_cast<std::size_t>(ids[(i + 1) % ids.size()]);
      c.tensors["lm_head.weight"].values[to * 512 + from] = 9;
    }
    c.write(files_.folder());
    model_ = AutoModelForCausalLM::from_pretrained(files_.path(), {.dtype = at::kFloat});
  }

  const CausalLM& operator*() const { return *model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  TinyModel files_;
  Tokenizer tokenizer_;
  std::shared_ptr<const CausalLM> model_;
};

// An assistant that knows bytes alone guesses for a model whose tokens are up to several bytes long.
TEST(OtherTokenizerTest, GuessesComeBackAsTheModelsOwnTokens) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  const RecitingModel model(text, 500), assistant(text, 256);
  ASSERT_LT(model.tokenizer().encode(text).size(), text.size());
  const at::Tensor prompt = tensor_of({model.tokenizer().encode("abcdef")});
  for (const std::int64_t n : {1, 4, 20}) {
    const GenerateOptions plain{.max_new_tokens = 40};
    GenerateOptions drafted = plain;
    drafted.assistant_model = &*assistant;
    drafted.num_assistant_tokens = n;
    drafted.tokenizer = &model.tokenizer();
    drafted.assistant_tokenizer = &assistant.tokenizer();
    const GenerateOutput output = (*model).generate(prompt, drafted);
    EXPECT_EQ(output.new_tokens, (*model).generate(prompt, plain).new_tokens) << n;
    EXPECT_EQ(output.decode_steps, 39 - output.accepted_tokens) << n;
    EXPECT_GT(output.accepted_tokens, n == 20 ? 30 : 5) << n;  // twenty bytes are a dozen tokens, nearly all right
  }
}

// Texts that differ in any way: wrong guesses, ids without text, halves of characters.
TEST(OtherTokenizerTest, TextsAreThoseWithoutDrafts) {
  const TinyModel own, other(300);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(own.path()), others = Tokenizer::from_pretrained(other.path());
  const auto model = golden_model("llama"), assistant = golden_model("qwen2");
  for (const Way& way : caches()) {
    for (const bool sampled : {false, true}) {
      for (const Ids& prompt : {tokenizer.encode("Na\u00efve foxes jump"), Ids{511, 5, 9}}) {
        GenerateOptions plain = way.options;
        plain.max_new_tokens = 24;
        if (sampled) plain.do_sample = true, plain.seed = 11;
        GenerateOptions drafted = plain;
        drafted.assistant_model = assistant.get();
        drafted.assistant_confidence_threshold = 0;
        drafted.num_assistant_tokens = 6;
        drafted.tokenizer = &tokenizer;
        drafted.assistant_tokenizer = &others;
        EXPECT_EQ(model->generate(tensor_of({prompt}), drafted).new_tokens,
                  model->generate(tensor_of({prompt}), plain).new_tokens)
            << way.name << (sampled ? " drawn" : "");
      }
    }
  }
}

TEST(OtherTokenizerTest, BothTokenizersAreNeeded) {
  const TinyModel files;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(files.path());
  const auto model = golden_model("llama");
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       model->generate(
                           tensor_of({{5}}),
                           {.max_new_tokens = 3, .assistant_model = model.get(), .assistant_tokenizer = &tokenizer});
                     }),
              HasSubstr("one of them was given"));
}

TEST_F(DraftEndsTest, EncoderDecodersLookUpToo) {
  const auto t5 = AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("t5"), {.dtype = at::kFloat});
  const at::Tensor source = tensor_of({some_ids(30)});
  EXPECT_EQ(t5->generate(source, {.max_new_tokens = 20, .prompt_lookup_num_tokens = 5}).new_tokens,
            t5->generate(source, {.max_new_tokens = 20}).new_tokens);
}

TEST_F(DraftEndsTest, DraftsGoWithOneSequence) {
  const GenerateOptions options{.max_new_tokens = 3, .prompt_lookup_num_tokens = 2};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       model_->generate(tensor_of({{5}, {6}}), options);
                     }),
              HasSubstr("2 prompts"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       model_->generate(
                           tensor_of({{5}}),
                           {.max_new_tokens = 3, .prompt_lookup_num_tokens = 2, .assistant_model = model_.get()});
                     }),
              HasSubstr("exclude"));
}

}  // namespace
}  // namespace mneme
