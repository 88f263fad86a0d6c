#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"
#include "tests/support/default_model.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

class GenerateCommandTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new TinyModel; }
  static void TearDownTestSuite() { delete model_; }

  static Arguments generate(const Arguments& more) {
    Arguments all = {"generate", "--model", model_->path(), "--dtype", "float32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json generated(const Arguments& more) { return run_json(generate(more)); }
  static Ids new_ids(const Json& result, std::size_t prompt_length, std::size_t sequence = 0) {
    const auto all = result.at("sequences").at(sequence).get<Ids>();
    return {all.begin() + static_cast<std::ptrdiff_t>(prompt_length), all.end()};
  }

  static inline TinyModel* model_ = nullptr;
};

TEST_F(GenerateCommandTest, JsonHasEverythingThatTheInterfaceNames) {
  const Json result = generated({"--ids", "5,6,7", "--max-new-tokens", "4"});
  EXPECT_EQ(result["sequences"][0].size(), 7u);
  EXPECT_TRUE(result["texts"][0].is_string());
  EXPECT_EQ(result["finish_reasons"], Json::array({"length"}));
  EXPECT_TRUE(result["seed"].is_number());
  EXPECT_EQ(result["usage"], Json({{"prompt_tokens", 3}, {"new_tokens", 4}, {"cached_tokens", 0}}));
  for (const char* key : {"load_ms", "prefill_ms", "decode_ms", "prefill_tokens_per_s", "decode_tokens_per_s"}) {
    EXPECT_GT(result["timing"][key].get<double>(), 0) << key;
  }
  EXPECT_EQ(result["cache"]["implementation"], "dynamic");
  EXPECT_EQ(result["cache"]["length"], 6);  // the last token is never fed back
  EXPECT_GT(result["cache"]["bytes"].get<int>(), 0);
  EXPECT_EQ(result["cache"]["bytes_offloaded"], 0);
  EXPECT_EQ(result["model"]["dtype"], "float32");
  EXPECT_FALSE(result.contains("last_logits"));
}

TEST_F(GenerateCommandTest, LogitsOnRequest) {
  const Json result = generated({"--ids", "5,6,7", "--ids", "9", "--max-new-tokens", "2", "--logits"});
  ASSERT_EQ(result["last_logits"].size(), 2u);
  EXPECT_EQ(result["last_logits"][0].size(), 512u);
  EXPECT_GT(result["min_gap"].get<double>(), 0);
}

TEST_F(GenerateCommandTest, SameLogitsToTheLastBitWhateverTheCacheChunksAndThreads) {
  const Arguments base = {"--ids", "5,6,7,8,9,10,11,12,13,14,15", "--max-new-tokens", "6", "--logits"};
  const auto with = [&](const Arguments& more) {
    Arguments all = base;
    all.insert(all.end(), more.begin(), more.end());
    const Json result = generated(all);
    return std::pair(result["sequences"], result["last_logits"]);
  };
  const auto expected = with({});
  EXPECT_EQ(with({"--cache-implementation", "static"}), expected);
  EXPECT_EQ(with({"--cache-implementation", "static", "--max-cache-len", "100"}), expected);
  EXPECT_EQ(with({"--no-use-cache"}), expected);
  EXPECT_EQ(with({"--prefill-chunk-size", "3"}), expected);
  EXPECT_EQ(with({"--threads", "1"}), expected);
  EXPECT_EQ(with({"--threads", "3"}), expected);
}

TEST_F(GenerateCommandTest, PromptsOfAllKindsFormOneBatchInTheirOrder) {
  const TempFolder folder;
  const std::string file = folder.write("prompt.txt", "abc");
  const Json result = generated({"--ids", "7,8", "--prompt", "abc", "--prompt-file", file, "--ids", "9", "--prompt",
                                 "[1, 2]", "--max-new-tokens", "3"});
  const Json& rows = result["sequences"];
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0][0], 7);
  EXPECT_EQ(rows[1], rows[2]);
  EXPECT_EQ(rows[3][0], 9);
  EXPECT_EQ(rows[3].size(), 4u);  // no padding
  EXPECT_EQ(rows[4].size(), 6 + 3u);
  EXPECT_EQ(result["usage"]["prompt_tokens"], 2 + 3 + 3 + 1 + 6);
  EXPECT_EQ(rows[0], generated({"--ids", "7,8", "--max-new-tokens", "3"})["sequences"][0]);
}

TEST_F(GenerateCommandTest, ChatRendersTheTemplateAndAddsNoSpecialTokens) {
  const Json chat = generated({"--chat", "--prompt", "Hi", "--max-new-tokens", "1"});
  const Json rendered = run_json({"render", "--model", model_->path(), "--messages", "-", "--add-generation-prompt"},
                                 {.input = R"([{"role": "user", "content": "Hi"}])"});
  const auto ids = rendered["ids"].get<Ids>();
  auto prompt = chat["sequences"][0].get<Ids>();
  prompt.pop_back();
  EXPECT_EQ(prompt, ids);
  EXPECT_EQ(ids.front(), 501);  // <|im_start|>, the BOS, once
  EXPECT_NE(ids.at(1), 501);
}

TEST_F(GenerateCommandTest, DtypesAreReportedAndUsed) {
  for (const std::string dtype : {"float32", "bfloat16", "float16"}) {
    const Json result =
        run_json({"generate", "--model", model_->path(), "--ids", "5,6", "--dtype", dtype, "--max-new-tokens", "2"});
    EXPECT_EQ(result["model"]["dtype"], dtype);
  }
  EXPECT_EQ(run_json({"generate", "--model", model_->path(), "--ids", "5,6", "--dtype", "auto"})["model"]["dtype"],
            "bfloat16");
}

TEST_F(GenerateCommandTest, LengthIsTwentyTokensUnlessSaidOtherwise) {
  EXPECT_EQ(generated({"--ids", "5,6,7"})["sequences"][0].size(), 20u);
  EXPECT_EQ(generated({"--ids", "5,6,7", "--max-length", "9"})["sequences"][0].size(), 9u);
  EXPECT_EQ(generated({"--ids", "5,6,7", "--max-length", "9", "--max-new-tokens", "2"})["sequences"][0].size(), 5u);
  EXPECT_EQ(generated({"--ids", "5,6,7", "--max-new-tokens", "0"})["sequences"][0].size(), 3u);
}

TEST_F(GenerateCommandTest, EndsAtEosUnlessItIsIgnoredOrTooEarly) {
  const Ids free = new_ids(generated({"--ids", "5,6,7", "--max-new-tokens", "8"}), 3);
  const TinyModel ending;  // the same weights, but the third of those tokens ends a text
  ending.write("generation_config.json", Json{{"eos_token_id", {free[2]}}, {"pad_token_id", 0}}.dump());
  const auto run_ending = [&](const Arguments& more) {
    Arguments all = {"generate", "--model", ending.path(),      "--dtype", "float32",
                     "--ids",    "5,6,7",   "--max-new-tokens", "8"};
    all.insert(all.end(), more.begin(), more.end());
    return run_json(all);
  };
  const Json stopped = run_ending({});
  EXPECT_EQ(new_ids(stopped, 3), Ids(free.begin(), std::find(free.begin(), free.end(), free[2]) + 1));
  EXPECT_EQ(stopped["finish_reasons"][0], "stop");
  EXPECT_EQ(new_ids(run_ending({"--ignore-eos"}), 3), free);
  EXPECT_EQ(run_ending({"--min-new-tokens", "8"})["finish_reasons"][0], "length");
}

TEST_F(GenerateCommandTest, StopStringsEndTheText) {
  const Json free = generated({"--ids", "5,6,7", "--max-new-tokens", "12"});
  const std::string text = free["texts"][0];
  ASSERT_GT(text.size(), 6u);
  const std::string stop = text.substr(2, 2);
  const Json stopped =
      generated({"--ids", "5,6,7", "--max-new-tokens", "12", "--stop-strings", "never so", "--stop-strings", stop});
  EXPECT_EQ(stopped["finish_reasons"][0], "stop");
  EXPECT_THAT(stopped["texts"][0].get<std::string>(), HasSubstr(stop));
  EXPECT_LT(stopped["sequences"][0].size(), free["sequences"][0].size());
}

TEST_F(GenerateCommandTest, MaxTimeEndsTheText) {
  const Json result = generated({"--ids", "5,6,7", "--max-new-tokens", "500", "--max-time", "0.000001"});
  EXPECT_EQ(result["finish_reasons"][0], "time");
  EXPECT_EQ(result["usage"]["new_tokens"], 1);
}

TEST_F(GenerateCommandTest, SamplingIsDrawnFromTheSeedThatIsReported) {
  const Arguments sample = {"--ids",         "5,6,7", "--max-new-tokens", "12", "--do-sample",
                            "--temperature", "3",     "--top-k",          "0"};
  const Json drawn = generated(sample);
  Arguments again = sample;
  again.insert(again.end(), {"--seed", std::to_string(drawn["seed"].get<std::uint64_t>())});
  EXPECT_EQ(generated(again)["sequences"], drawn["sequences"]);
  EXPECT_NE(generated(sample)["sequences"], drawn["sequences"]);  // another seed; 12 flat draws of 512 cannot agree
}

TEST_F(GenerateCommandTest, LimitsOfTheSamplingFlagsAreGreedy) {
  const Json greedy = generated({"--ids", "5,6,7", "--max-new-tokens", "8"})["sequences"];
  for (const Arguments& flags :
       {Arguments{"--temperature", "0"}, {"--top-k", "1"}, {"--top-p", "0"}, {"--min-p", "1"}}) {
    Arguments all = {"--ids", "5,6,7", "--max-new-tokens", "8", "--do-sample"};
    all.insert(all.end(), flags.begin(), flags.end());
    EXPECT_EQ(generated(all)["sequences"], greedy) << flags[0];
  }
}

TEST_F(GenerateCommandTest, RepetitionPenaltyChangesTheText) {
  const auto with = [](const char* penalty) {
    return generated({"--ids", "5,6,7", "--max-new-tokens", "30", "--repetition-penalty", penalty})["sequences"];
  };
  EXPECT_NE(with("1"), with("50"));
}

TEST_F(GenerateCommandTest, TextStreamsToStdoutAndTheRestToStderr) {
  const Json expected = generated({"--prompt", "abc", "--max-new-tokens", "10"});
  const Finished finished = run(generate({"--prompt", "abc", "--max-new-tokens", "10"}));
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.out, expected["texts"][0].get<std::string>() + "\n");
  EXPECT_THAT(finished.err, HasSubstr("tokens/s"));
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
}

TEST_F(GenerateCommandTest, TextsOfABatchStandOneUnderTheOther) {
  const Arguments arguments = {"--prompt", "abc", "--prompt", "d", "--max-new-tokens", "4"};
  const Json expected = generated(arguments);
  const Finished finished = run(generate(arguments));
  EXPECT_EQ(finished.out,
            expected["texts"][0].get<std::string>() + "\n" + expected["texts"][1].get<std::string>() + "\n");
  EXPECT_THAT(finished.err, HasSubstr("1 of 2"));
}

TEST_F(GenerateCommandTest, WithoutATokenizerIdsAreShown) {
  const std::string bare = testing::test_data("models/llama");
  const Json result = run_json({"generate", "--model", bare, "--ids", "5,6", "--max-new-tokens", "2"});
  EXPECT_TRUE(result["texts"][0].is_null());
  const Finished finished = run({"generate", "--model", bare, "--ids", "5,6", "--max-new-tokens", "2"});
  EXPECT_EQ(finished.out,
            fmt::format("{} {}\n", result["sequences"][0][2].get<int>(), result["sequences"][0][3].get<int>()));
  EXPECT_THAT(refused({"generate", "--model", bare, "--prompt", "abc"}), HasSubstr("tokenizer"));
}

TEST_F(GenerateCommandTest, TheFirstInterruptKeepsWhatThereIs) {
  Process process(program(generate({"--prompt", "abc", "--max-length", "512", "--no-use-cache", "--threads", "1"})));
  process.wait_for_output();
  process.send(SIGINT);
  const Finished finished = process.finish();
  EXPECT_EQ(finished.code, 130) << finished.signal;
  EXPECT_GT(finished.out.size(), 1u);
  EXPECT_EQ(finished.out.back(), '\n');
  EXPECT_THAT(finished.err, HasSubstr("cancelled"));
}

TEST_F(GenerateCommandTest, AReaderThatGoesAwayEndsTheProgramQuietly) {
  Process process(program(generate({"--prompt", "abc", "--max-length", "512", "--no-use-cache", "--threads", "1"})));
  process.wait_for_output();
  process.close_output();
  const Finished finished = process.finish();
  EXPECT_EQ(finished.code, 0) << "signal " << finished.signal;
  EXPECT_EQ(finished.err, "");
}

TEST_F(GenerateCommandTest, AFullDiskIsAFailureWhileRunning) {
  const Finished finished =
      run(generate({"--prompt", "abc", "--max-new-tokens", "4", "--json"}), {.stdout_path = "/dev/full"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("cannot write to standard output"));
}

TEST_F(GenerateCommandTest, ASecondBosIsWarnedOf) {
  const Finished once = run(generate({"--prompt", "<|im_start|>a", "--max-new-tokens", "1"}));
  EXPECT_THAT(once.err, ::testing::Not(HasSubstr("warning")));
  const TinyModel adds_bos;
  Json tokenizer = read_json_file(adds_bos.path("tokenizer.json"));
  tokenizer["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [501], "tokens": ["<|im_start|>"]}}})");
  adds_bos.write("tokenizer.json", tokenizer.dump());
  const auto arguments = [&](const char* prompt, bool chat) {
    Arguments all = {"generate",     "--model", adds_bos.path(),    "--prompt", prompt,
                     "--max-length", "200",     "--max-new-tokens", "1"};
    if (chat) all.push_back("--chat");
    return all;
  };
  EXPECT_THAT(run(arguments("<|im_start|>a", false)).err, HasSubstr("mneme: warning: "));
  EXPECT_THAT(run(arguments("a", false)).err, ::testing::Not(HasSubstr("warning")));
  EXPECT_EQ(run_json(arguments("", false))["sequences"][0][0], 501);  // the BOS alone is a prompt
  const auto chat = run_json(arguments("a", true))["sequences"][0].get<Ids>();
  EXPECT_EQ(chat[0], 501);
  EXPECT_NE(chat[1], 501);
}

TEST_F(GenerateCommandTest, TheDefaultModelIsFoundInTheCacheFolder) {
  const std::string path = testing::default_model_path();
  if (path.empty()) GTEST_SKIP() << testing::kNoDefaultModel;
  const TempFolder cache;
  std::filesystem::create_directory(cache.path() + "/models");
  std::filesystem::create_symlink(path, cache.path() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  const Json result = run_json({"generate", "--prompt", "The capital of France is", "--max-new-tokens", "4"},
                               {.variables = {{"MNEME_CACHE", cache.path()}}});
  EXPECT_THAT(result["texts"][0].get<std::string>(), HasSubstr("Paris"));
}

TEST(JsonSchemaFlagTest, WritesJsonOfASchema) {
  const TinyModel model;
  const std::string schema = R"({"type": "object", "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 8}},
                                 "required": ["n"]})";
  model.write("schema.json", schema);
  model.write("generation_config.json", R"({"eos_token_id": 502})");
  for (const std::string& given : {schema, model.path("schema.json")}) {
    const Json result = run_json(
        {"generate", "--model", model.path(), "--prompt", "Hi", "--max-new-tokens", "200", "--json-schema", given});
    EXPECT_EQ(result["finish_reasons"][0], "stop");
    const int n = parse_json(result["texts"][0].get<std::string>(), "text")["n"].get<int>();
    EXPECT_GE(n, 5);
    EXPECT_LE(n, 8);
  }
  const auto refused = [&](const std::string& text) {
    const Finished finished = run({"generate", "--model", model.path(), "--prompt", "Hi", "--json-schema", text});
    EXPECT_EQ(finished.code, 2);
    return finished.err;
  };
  EXPECT_THAT(refused(R"({"oneOf": []})"), HasSubstr("--json-schema: #: \"oneOf\" is not supported"));
  EXPECT_THAT(refused("{"), HasSubstr("--json-schema"));
  EXPECT_THAT(refused("/no/schema.json"), HasSubstr("/no/schema.json"));
}

TEST_F(GenerateCommandTest, APromptCacheKeepsATextFromOneCallToTheNext) {
  const TempFolder folder;
  const std::string file = folder.path() + "/text.cache";
  const auto with = [&](const char* ids, const Arguments& more = {}) {
    Arguments all = {"--ids", ids, "--max-new-tokens", "8", "--ignore-eos"};
    all.insert(all.end(), more.begin(), more.end());
    return generated(all);
  };
  const char *shorter = "5,6,7,8,9,10,11,12", *longer = "5,6,7,8,9,10,11,12,13,14,15", *other = "5,6,7,300";
  const Json first = with(shorter, {"--prompt-cache", file}), again = with(shorter, {"--prompt-cache", file}),
             next = with(longer, {"--prompt-cache", file}), last = with(other, {"--prompt-cache", file});
  EXPECT_EQ(first["usage"]["cached_tokens"], 0);
  EXPECT_EQ(again["usage"]["cached_tokens"], 7);
  EXPECT_EQ(next["usage"]["cached_tokens"], 8);
  EXPECT_EQ(last["usage"]["cached_tokens"], 3);
  EXPECT_EQ(first["sequences"], with(shorter)["sequences"]);
  EXPECT_EQ(again["sequences"], first["sequences"]);
  EXPECT_EQ(next["sequences"], with(longer)["sequences"]);
  EXPECT_EQ(last["sequences"], with(other)["sequences"]);

  // Windows and states go back as well.
  for (const char* name : {"mistral_window8", "mamba"}) {
    const Arguments call = {"generate", "--model",      testing::test_data("models/") + name,
                            "--ids",    shorter,        "--max-new-tokens",
                            "30",       "--ignore-eos", "--prompt-cache",
                            file + name};
    const Json cold = run_json(call), warm = run_json(call);
    EXPECT_EQ(warm["usage"]["cached_tokens"], 7) << name;
    EXPECT_EQ(warm["sequences"], cold["sequences"]) << name;
  }
  with(shorter, {"--cache-implementation", "static", "--prompt-cache", file + "static"});
  EXPECT_THAT(refused(generate({"--ids", longer, "--max-new-tokens", "30", "--prompt-cache", file + "static"})),
              HasSubstr("static cache of 16"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--prompt-cache", file, "--offload-if-out-of-memory"})),
              HasSubstr("exclude"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--prompt-cache", "/nowhere/at/all"})), HasSubstr("/nowhere/at/all"));

  const std::string kept = testing::read_file(file);
  EXPECT_THAT(
      refused({"generate", "--model", model_->path(), "--ids", "5", "--dtype", "bfloat16", "--prompt-cache", file}),
      HasSubstr("saved for"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--ids", "6", "--prompt-cache", file})), HasSubstr("2 prompts"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--cache-config", R"({"backend": "int8"})", "--prompt-cache", file})),
              HasSubstr("other options"));
  EXPECT_THAT(refused(generate({"--ids", "5", "--no-use-cache", "--prompt-cache", file})), HasSubstr("--no-use-cache"));
  EXPECT_EQ(testing::read_file(file), kept);
  const std::string note = folder.write("note.txt", "no cache");
  EXPECT_THAT(refused(generate({"--ids", "5", "--prompt-cache", note})), HasSubstr("note.txt"));
  EXPECT_EQ(testing::read_file(note), "no cache");
}

}  // namespace
}  // namespace mneme::cli
