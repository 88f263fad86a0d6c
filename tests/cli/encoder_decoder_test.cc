// Encoder-decoder models through the program: the config alone says which kind of model it is.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

const std::string kModel = testing::test_data("models/t5");

std::string joined(const Ids& ids) { return fmt::format("{}", fmt::join(ids, ",")); }

Arguments generate(const Arguments& more) {
  Arguments all = {"generate", "--model", kModel, "--dtype", "float32"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(EncoderDecoderCommands, GreedyIsTransformersGreedy) {
  for (const Json& item : read_json_file(kModel + "/golden.json").at("cases")) {
    if (item["mode"] != "greedy") continue;
    Arguments arguments = {"--max-new-tokens", std::to_string(item["max_new_tokens"].get<int>()), "--logits"};
    for (const Json& ids : item["input_ids"]) arguments.insert(arguments.end(), {"--ids", joined(ids.get<Ids>())});
    if (item.contains("decoder_input_ids")) {
      for (const Json& ids : item["decoder_input_ids"])
        arguments.insert(arguments.end(), {"--decoder-ids", joined(ids.get<Ids>())});
    }
    const Json expected = run_json(generate(arguments));
    EXPECT_EQ(expected["sequences"], item["sequences"]);
    for (const Arguments& kind :
         {Arguments{"--cache-implementation", "static"}, {"--no-use-cache"}, {"--threads", "1"}}) {
      Arguments all = arguments;
      all.insert(all.end(), kind.begin(), kind.end());
      const Json result = run_json(generate(all));
      EXPECT_EQ(result["sequences"], expected["sequences"]) << kind[0];
      EXPECT_EQ(result["last_logits"], expected["last_logits"]) << kind[0];
    }
  }
}

TEST(EncoderDecoderCommands, JsonCountsBothParts) {
  const Json result = run_json(generate({"--ids", "5,6,7", "--max-new-tokens", "4"}));
  EXPECT_EQ(result["sequences"][0].size(), 5u);
  EXPECT_EQ(result["sequences"][0][0], 0);
  EXPECT_TRUE(result["texts"][0].is_null());
  EXPECT_EQ(result["usage"], Json({{"prompt_tokens", 4}, {"new_tokens", 4}, {"cached_tokens", 0}}));
  EXPECT_EQ(result["cache"]["implementation"], "dynamic");
  EXPECT_EQ(result["cache"]["length"], 4);
  EXPECT_EQ(result["cache"]["bytes"], 2 * 3 * 64 * 4 * 2 * 16 * 4);  // parts, layers, slots, heads, keys and values
}

TEST(EncoderDecoderCommands, OneListOfDecoderIdsServesAllPrompts) {
  const Json one =
      run_json(generate({"--ids", "5,6,7", "--ids", "9", "--decoder-ids", "0,5,6", "--max-new-tokens", "3"}));
  EXPECT_EQ(one["sequences"][1].size(), 6u);
  EXPECT_EQ(one["sequences"], run_json(generate({"--ids", "5,6,7", "--decoder-ids", "0,5,6", "--ids", "9",
                                                 "--decoder-ids", "0,5,6", "--max-new-tokens", "3"}))["sequences"]);
  EXPECT_THAT(refused(generate({"--ids", "5", "--ids", "6", "--ids", "7", "--decoder-ids", "0", "--decoder-ids", "1"})),
              AllOf(HasSubstr("2 lists of decoder ids"), HasSubstr("3 prompts")));
}

TEST(EncoderDecoderCommands, IdsAreShownWhereThereIsNoTokenizer) {
  const Json result = run_json(generate({"--ids", "5,6,7", "--decoder-ids", "0,9", "--max-new-tokens", "2"}));
  const Finished finished = run(generate({"--ids", "5,6,7", "--decoder-ids", "0,9", "--max-new-tokens", "2"}));
  EXPECT_EQ(finished.out,
            fmt::format("{} {}\n", result["sequences"][0][2].get<int>(), result["sequences"][0][3].get<int>()));
}

TEST(EncoderDecoderCommands, InspectShowsBothCaches) {
  const Json result = run_json({"inspect", "--model", kModel});
  EXPECT_EQ(result["model"]["architecture"], "t5");
  EXPECT_EQ(result["cache"]["plan"][0]["layers"], "0-2");
  EXPECT_EQ(result["cross_cache"]["plan"][0]["layers"], "0-2");
  EXPECT_EQ(result["cross_cache"]["plan"][0]["retention"], "all");
  EXPECT_EQ(result["cross_cache"]["bytes_per_token"], result["cache"]["bytes_per_token"]);
  EXPECT_THAT(run({"inspect", "--model", kModel}).out, HasSubstr("cross_cache"));
  EXPECT_FALSE(run_json({"inspect", "--model", testing::test_data("models/llama")}).contains("cross_cache"));
}

TEST(EncoderDecoderCommands, WhatCannotBeIsOneSentence) {
  EXPECT_THAT(refused(generate({"--prompt", "translate"})), HasSubstr("tokenizer"));
  EXPECT_THAT(refused(generate({"--chat", "--prompt", "Hi"})), HasSubstr("tokenizer"));
  EXPECT_THAT(refused(generate({"--ids", ""})), HasSubstr("empty prompt"));
  EXPECT_THAT(refused(generate({"--ids", "512"})), HasSubstr("512"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--decoder-ids", "0,512"})), HasSubstr("512"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--decoder-ids", "0,x"})), HasSubstr("\"x\""));
  EXPECT_THAT(refused(generate({"--ids", "5", "--decoder-ids", ""})), HasSubstr("empty prompt"));
  EXPECT_THAT(refused(generate(
                  {"--ids", "5", "--max-new-tokens", "9", "--cache-implementation", "static", "--max-cache-len", "9"})),
              AllOf(HasSubstr("1 + 9"), HasSubstr("capacity of 9")));
  EXPECT_THAT(refused({"nll", "--model", kModel, "--ids", "5,6,7", "--prefill", "1"}), HasSubstr("encoder-decoder"));
  EXPECT_THAT(refused({"generate", "--model", testing::test_data("models/llama"), "--ids", "5", "--decoder-ids", "0"}),
              AllOf(HasSubstr("decoder ids"), HasSubstr("llama is a causal language model")));
}

/// The model beside a tokenizer whose model is this.
void write_model(const TempFolder& folder, const std::string& tokenizer_model) {
  for (const char* file : {"config.json", "model.safetensors", "generation_config.json"})
    std::filesystem::copy(kModel + "/" + file, folder.path() + "/" + file);
  folder.write("tokenizer.json", R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": null, "model": )" +
                                     tokenizer_model + "}");
}

TEST(EncoderDecoderCommands, TakeTextsOfAUnigramTokenizer) {
  const TempFolder folder;
  write_model(folder, R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["b", -1], ["ab", -1]]})");
  const Json of_text = run_json({"generate", "--model", folder.path(), "--prompt", "abaz", "--max-new-tokens", "4"});
  const Json of_ids = run_json({"generate", "--model", folder.path(), "--ids", "3,1,0", "--max-new-tokens", "4"});
  EXPECT_EQ(of_text["sequences"], of_ids["sequences"]);
}

// A folder with a tokenizer that cannot be read still takes ids; a text gets its one sentence.
TEST(EncoderDecoderCommands, ATextForATokenizerOfAnotherKindIsOneSentence) {
  const TempFolder folder;
  write_model(folder, R"({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0}})");
  EXPECT_THAT(refused({"generate", "--model", folder.path(), "--prompt", "a"}), HasSubstr("WordLevel"));
  const Finished finished = run({"generate", "--model", folder.path(), "--ids", "5", "--max-new-tokens", "1"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("WordLevel"));
}

}  // namespace
}  // namespace mneme::cli
