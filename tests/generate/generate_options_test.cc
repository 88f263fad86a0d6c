// What transformers' generate() answers with all kinds of options, beams above all, on every kind of cache.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mneme/generate/prompts.h"
#include "mneme/generate/seq2seq_lm.h"
#include "tests/generate/golden.h"

namespace mneme {
namespace {

using testing::Rows;
using testing::tensor_of;

struct Models {
  std::map<std::string, std::shared_ptr<const CausalLM>> causal = {};
  std::shared_ptr<const Seq2SeqLM> t5 =
      AutoModelForSeq2SeqLM::from_pretrained(testing::golden_path("t5"), {.dtype = at::kFloat});

  GenerateOutput generate(const std::string& name, const EncodedInputs& inputs, const GenerateOptions& options) {
    if (name == "t5") return t5->generate(inputs, options);
    auto& model = causal[name];
    if (!model) model = testing::golden_model(name);
    return model->generate(inputs, options);
  }
};

EncodedInputs inputs_of(const Json& c) {
  return {.input_ids = tensor_of(c["input_ids"].get<Rows>()),
          .attention_mask = tensor_of(c["attention_mask"].get<Rows>())};
}

/// Parity: the reference fills rows of beams that ended sooner with the first eos where pad_token_id is 0, ours with
/// it.
void expect_same_texts(const GenerateOutput& output, const Json& c) {
  const auto expected = c["sequences"].get<Rows>();
  const auto n_prompt = static_cast<std::ptrdiff_t>(output.sequences.size(1) - longest(output.new_tokens));
  const std::int64_t fill = c.contains("options") && c["options"].contains("eos_token_id") && c.contains("beam_indices")
                                ? c["options"]["eos_token_id"][0].get<std::int64_t>()
                                : 0;
  ASSERT_EQ(output.new_tokens.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    Rows::value_type ours = output.new_tokens[i];
    ours.resize(expected[i].size() - static_cast<std::size_t>(n_prompt), fill);
    EXPECT_EQ(ours, Rows::value_type(expected[i].begin() + n_prompt, expected[i].end())) << "row " << i;
  }
}

/// largest: the model's largest logits, where they are far from 1; as for logits, 1e-4 is relative to them.
void expect_same_beams(const GenerateOutput& output, const Json& c, double length_penalty, double largest = 1) {
  expect_same_texts(output, c);
  const auto scores = c["sequences_scores"].get<std::vector<float>>();
  ASSERT_EQ(output.sequences_scores.size(), scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    // A penalty below 0 multiplies the sum of log-probabilities, and its rounding.
    const double factor = std::pow(static_cast<double>(output.new_tokens[i].size()), -length_penalty);
    EXPECT_NEAR(output.sequences_scores[i], scores[i], 1e-4 * largest * std::max(1.0, factor)) << i;
  }
}

const std::pair<const char*, GenerateOptions> kCaches[] = {
    {"dynamic", {}},
    {"static", {.cache_implementation = "static"}},
    {"offloaded", {.cache_implementation = "offloaded"}},
    {"none", {.use_cache = false}},
};

GenerateOptions options_of(const Json& json, const GenerateOptions& cache) {
  GenerateOptions options = cache;
  Json keys = json;
  if (keys.contains("negative_prompt_ids")) {
    options.negative_prompt_ids = keys["negative_prompt_ids"].get<Rows>();
    keys.erase("negative_prompt_ids");
  }
  const GenerationConfig config = GenerationConfig::from_json(keys, "generate_options.json");
  const auto ids = options.negative_prompt_ids;
  options = merged(std::move(options), config);
  options.pad_token_id = 0;
  return options;
}

TEST(GenerateOptionsTest, TextsAndScoresAreTransformers) {
  Models models;
  const Json golden = read_json_file(testing::test_data("generate_options.json"));
  ASSERT_GT(golden["cases"].size(), 80u);
  for (const Json& c : golden["cases"]) {
    for (const auto& [name, cache] : kCaches) {
      SCOPED_TRACE(c["model"].get<std::string>() + " " + c["options"].dump() + " " + name);
      if (c["model"] == "t5" && std::string(name) == "none") continue;
      const GenerateOutput output = models.generate(c["model"], inputs_of(c), options_of(c["options"], cache));
      if (c.contains("sequences_scores")) {
        expect_same_beams(output, c, c["options"].value("length_penalty", 1.0), c["model"] == "t5" ? 20 : 1);
        const auto beam_indices = c["beam_indices"].get<Rows>();
        for (std::size_t i = 0; i < beam_indices.size(); ++i) {
          const auto& ours = output.beam_indices[i];
          const Rows::value_type theirs(beam_indices[i].begin(),
                                        beam_indices[i].begin() + static_cast<std::ptrdiff_t>(ours.size()));
          EXPECT_EQ(ours, theirs) << i;
        }
      } else {
        expect_same_texts(output, c);
      }
    }
  }
}

TEST(GenerateOptionsTest, BeamsOfTheGoldensAreTransformers) {
  Models models;
  int n_beams = 0;
  for (const char* name : {"llama", "llama_rope3", "mistral_window8", "qwen2", "qwen3", "mamba", "t5"}) {
    const Json golden = read_json_file(testing::golden_path(name) + "/golden.json");
    for (const Json& c : golden["cases"]) {
      if (c["mode"] != "beam") continue;
      ++n_beams;
      for (const auto& [cache_name, cache] : kCaches) {
        if (std::string(name) == "t5" && std::string(cache_name) == "none") continue;
        SCOPED_TRACE(std::string(name) + " " + cache_name);
        Json keys = Json::object();
        for (const char* key :
             {"max_new_tokens", "num_beams", "num_return_sequences", "length_penalty", "early_stopping"})
          keys[key] = c[key];
        expect_same_beams(models.generate(name, inputs_of(c), options_of(keys, cache)), c, c["length_penalty"]);
      }
    }
  }
  EXPECT_EQ(n_beams, 14);
}

}  // namespace
}  // namespace mneme
