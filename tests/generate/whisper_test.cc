// A small Whisper, from sound to ids, against transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/audio/wav.h"
#include "mneme/cache/presets.h"
#include "mneme/generate/auto_feature_extractor.h"
#include "mneme/generate/seq2seq_lm.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Rows;
using testing::thrown;

class WhisperTest : public ::testing::Test {
 protected:
  at::Tensor features(const std::vector<std::string>& sounds) const {
    std::vector<Audio> audio;
    for (const std::string& sound : sounds) audio.push_back(read_wav(path_ + "/" + sound + ".wav"));
    return AutoFeatureExtractor::from_pretrained(path_)(audio);
  }
  static GenerateOptions options_of(const Json& item) {
    const Json& given = item["options"];
    GenerateOptions options = GenerationConfig::from_json(given, "golden");
    options.eos_token_id.reset();  // as the model's file says
    options.max_new_tokens = item["max_new_tokens"].get<std::int64_t>();
    return options;
  }
  Json cases() const { return read_json_file(path_ + "/golden.json").at("cases"); }

  static inline const std::string path_ = testing::golden_path("whisper");
  std::shared_ptr<const Seq2SeqLM> model_ = AutoModelForSeq2SeqLM::from_pretrained(path_, {.dtype = at::kFloat});
};

TEST_F(WhisperTest, WritesWhatTransformersWritesOnEveryCache) {
  int n_greedy = 0, n_beams = 0;
  for (const Json& item : cases()) {
    SCOPED_TRACE(item["options"].dump());
    const Seq2SeqInput input{.input_features = features(item["sounds"].get<std::vector<std::string>>())};
    const bool beams = item.contains("sequences_scores");
    ++(beams ? n_beams : n_greedy);
    for (const char* kind : {"dynamic", "static", "offloaded", "none"}) {
      GenerateOptions options = options_of(item);
      if (kind == std::string("none")) {
        options.use_cache = false;
      } else {
        options.cache_implementation = kind;
      }
      options.output_logits = !beams;
      const GenerateOutput output = model_->generate(input, options);
      EXPECT_EQ(testing::rows_of(output.sequences), item["sequences"].get<Rows>()) << kind;
      if (beams) {
        const auto scores = item["sequences_scores"].get<std::vector<float>>();
        ASSERT_EQ(output.sequences_scores.size(), scores.size());
        for (std::size_t i = 0; i < scores.size(); ++i)
          EXPECT_NEAR(output.sequences_scores[i], scores[i], 1e-3) << kind;
        continue;
      }
      const auto wanted = item["last_logits"].get<std::vector<std::vector<float>>>();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const at::Tensor row = at::tensor(wanted[i]);
        EXPECT_LE((output.prompt_logits[static_cast<std::int64_t>(i)] - row).abs().max().item<float>(),
                  1e-4f * row.abs().max().item<float>())
            << kind;
      }
    }
  }
  EXPECT_EQ(n_greedy, 6);
  EXPECT_EQ(n_beams, 2);
}

// What a sound says depends on nothing beside it, and a cache that holds it is read, not computed again.
TEST_F(WhisperTest, ABatchIsItsSoundsAloneBitForBit) {
  const GenerateOptions options{.max_new_tokens = 16, .output_logits = true};
  const GenerateOutput both = model_->generate(Seq2SeqInput{.input_features = features({"short", "stereo"})}, options);
  const std::vector<std::string> names = {"short", "stereo"};
  for (std::size_t i = 0; i < 2; ++i) {
    const GenerateOutput alone = model_->generate(Seq2SeqInput{.input_features = features({names[i]})}, options);
    EXPECT_EQ(alone.new_tokens[0], both.new_tokens[i]);
    EXPECT_TRUE(at::equal(alone.prompt_logits[0], both.prompt_logits[static_cast<std::int64_t>(i)]));
  }
  EncoderDecoderCache cache = model_->dynamic_cache();
  const GenerateOutput first = model_->generate(Seq2SeqInput{.input_features = features({"short"})}, options, &cache);
  EXPECT_EQ(cache.cross_lengths(), std::vector<std::int64_t>{50});
  EXPECT_EQ(first.new_tokens[0], both.new_tokens[0]);
  cache.self_attention_cache().reset();
  const GenerateOutput again = model_->generate(Seq2SeqInput{}, options, &cache);
  EXPECT_EQ(again.new_tokens, first.new_tokens);
  EXPECT_EQ(again.cached_tokens, 50);
}

TEST_F(WhisperTest, ForwardTakesFeaturesToo) {
  const Json item = cases()[0];
  const at::Tensor prompt = testing::tensor_of(item["decoder_input_ids"].get<Rows>());
  const ForwardOutput output =
      model_->forward({.input_features = features({"short"}), .decoder_input_ids = prompt, .logits_to_keep = 1});
  const at::Tensor expected = at::tensor(item["last_logits"][0].get<std::vector<float>>());
  EXPECT_LE((output.logits[0][0] - expected).abs().max().item<float>(), 1e-4f * expected.abs().max().item<float>());
}

TEST_F(WhisperTest, InputOfAnotherKindOrShapeIsRefusedBeforeTheEncoderRuns) {
  const auto refusal = [&](const Seq2SeqInput& input, const GenerateOptions& options = {.max_new_tokens = 2}) {
    return thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(input, options); });
  };
  EXPECT_THAT(refusal({.input_ids = testing::tensor_of({{5, 6}})}), HasSubstr("give input_features, not input_ids"));
  EXPECT_THAT(refusal({.input_features = at::zeros({1, 80, 99})}),
              AllOf(HasSubstr("[1, 80, 99]"), HasSubstr("[batch, 80, 100]")));
  EXPECT_THAT(refusal({.input_features = at::zeros({1, 128, 100})}), HasSubstr("[1, 128, 100]"));
  EXPECT_THAT(refusal({.input_features = at::full({1, 80, 100}, NAN)}), HasSubstr("no finite number"));
  EXPECT_THAT(refusal({.input_features = at::zeros({1, 80, 100})}, {.max_new_tokens = 2, .language = "xx"}),
              AllOf(HasSubstr("language \"xx\" is not known"), HasSubstr("<|de|>")));
  EXPECT_THAT(
      refusal({.input_features = at::zeros({1, 80, 100}), .decoder_attention_mask = testing::tensor_of({{1, 0}})}),
      HasSubstr("decoder_attention_mask was given without decoder_input_ids"));
  EXPECT_THAT(refusal({}), HasSubstr("no prompt was given"));
  const auto t5 = AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("t5"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       t5->generate(Seq2SeqInput{.input_features = at::zeros({1, 80, 100})});
                     }),
              HasSubstr("give input_ids, not input_features"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       t5->generate(testing::tensor_of({{5, 6}}), {.max_new_tokens = 2, .task = "translate"});
                     }),
              HasSubstr("language and task are for speech models"));
}

TEST(FeatureExtractor, FeaturesAreThoseOfTheirSound) {
  const FeatureExtractor one_band(
      {.feature_size = 1, .sampling_rate = 1000, .hop_length = 10, .n_fft = 40, .chunk_length = 1});
  const Audio quiet{.samples = std::vector<float>(1000, 0.001f), .sampling_rate = 1000};
  Audio loud = quiet;
  for (std::size_t i = 0; i < loud.samples.size(); i += 3) loud.samples[i] = 0.9f;
  const at::Tensor both = one_band({quiet, loud});
  EXPECT_EQ(both.sizes(), (std::vector<std::int64_t>{2, 1, 100}));
  EXPECT_TRUE(at::equal(both[0], one_band(quiet)[0]));
  EXPECT_TRUE(at::equal(both[1], one_band(loud)[0]));
}

TEST_F(WhisperTest, EveryDtypeWritesFiniteLogits) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kChar}) {
    const auto model = AutoModelForSeq2SeqLM::from_pretrained(path_, {.dtype = dtype});
    const GenerateOutput output = model->generate(Seq2SeqInput{.input_features = features({"short"})},
                                                  {.max_new_tokens = 4, .language = "en", .output_logits = true});
    EXPECT_TRUE(at::isfinite(output.prompt_logits).all().item<bool>());
  }
}

}  // namespace
}  // namespace mneme
