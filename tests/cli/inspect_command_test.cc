#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

TEST(InspectCommandTest, ShowsModelCacheTokenizerAndMachine) {
  const TinyModel model;
  const Json result = run_json({"inspect", "--model", model.path(), "--threads", "2"});
  EXPECT_EQ(result["model"]["architecture"], "llama");
  EXPECT_EQ(result["model"]["num_hidden_layers"], 4);
  EXPECT_EQ(result["model"]["dtype"], "bfloat16");
  // embedding and head, four layers of q, k, v, o, three of the MLP, two norms; the last norm
  EXPECT_EQ(result["model"]["parameters"], 2 * 512 * 64 + 4 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 128 + 2 * 64) + 64);
  EXPECT_EQ(result["model"]["bytes"].get<int>(), 2 * result["model"]["parameters"].get<int>());
  EXPECT_EQ(result["cache"]["plan"][0]["layers"], "0-3");
  EXPECT_EQ(result["cache"]["plan"][0]["retention"], "all");
  EXPECT_EQ(result["cache"]["bytes_per_token"]["float32"], 4 * 2 * (16 + 16) * 4);  // layers, heads, keys and values
  EXPECT_EQ(result["tokenizer"]["vocab_size"], 503);
  EXPECT_EQ(result["tokenizer"]["special_tokens"]["eos_token"], "<|im_end|>");
  EXPECT_EQ(result["tokenizer"]["chat_template"], true);
  EXPECT_EQ(result["machine"]["threads"], 2);
  EXPECT_EQ(result["machine"]["instruction_sets"][0], "scalar");
}

TEST(InspectCommandTest, ShowsWindowsAndWhatIsMissing) {
  const Json result = run_json({"inspect", "--model", testing::test_data("models/mistral_window8")});
  EXPECT_EQ(result["cache"]["plan"][0]["retention"], "last 8");
  EXPECT_THAT(result["tokenizer"]["problem"].get<std::string>(), ::testing::HasSubstr("tokenizer.json"));
}

TEST(InspectCommandTest, ShowsStatesAndTheirConstantBytes) {
  const Json result = run_json({"inspect", "--model", testing::test_data("models/mamba")});
  const Json& layers = result["cache"]["plan"][0];
  EXPECT_EQ(layers["layers"], "0-3");
  EXPECT_EQ(layers["states"], Json({3 * 128, 128 * 16}));  // three tokens of the convolution, 16 numbers a channel
  EXPECT_EQ(layers["state_bytes"], 4 * (3 * 128 + 128 * 16));
  EXPECT_FALSE(layers.contains("heads"));
  EXPECT_EQ(result["cache"]["state_bytes"], 4 * 4 * (3 * 128 + 128 * 16));
  EXPECT_EQ(result["cache"]["bytes_per_token"]["float32"], 0);
}

// Seven layers of which the last four have no keys and values: of three, two sliding ones, one is read by two more.
TEST(InspectCommandTest, ShowsLayersThatOthersRead) {
  const Json result = run_json({"inspect", "--model", testing::test_data("models/gemma4_shared")});
  EXPECT_EQ(result["model"]["num_hidden_layers"], 7);
  const Json& plan = result["cache"]["plan"];
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[3]["layers"], "3-6");
  EXPECT_EQ(plan[3]["kind"], "reads the keys and values of an earlier layer");
  EXPECT_FALSE(plan[0].contains("also_read_by"));
  EXPECT_EQ(plan[1]["also_read_by"], "2 later layers");
  EXPECT_EQ(plan[2]["also_read_by"], "2 later layers");
  EXPECT_EQ(plan[2]["key_dim"], 32);
  EXPECT_EQ(result["cache"]["bytes_per_token"]["float32"], 2 * 2 * (2 * 16 + 32) * 4);
}

// Convolutions and attention by turns; a codec is for the layers that have keys and values.
TEST(InspectCommandTest, SaysWhatEachLayerOfAHybridKeeps) {
  const Json result =
      run_json({"inspect", "--model", testing::test_data("models/lfm2"), "--cache-config", R"({"backend": "int8"})"});
  const Json& plan = result["cache"]["plan"];
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0]["layers"], "0, 2");
  EXPECT_EQ(plan[1]["layers"], "1, 3");
  EXPECT_EQ(plan[0]["kind"], "convolution");
  EXPECT_EQ(plan[0]["states"], Json({2 * 64}));
  EXPECT_FALSE(plan[0].contains("codec"));
  EXPECT_THAT(plan[0]["note"].get<std::string>(), ::testing::HasSubstr("codecs, windows and offloading mean nothing"));
  EXPECT_EQ(plan[1]["heads"], 2);
  EXPECT_EQ(plan[1]["codec"], "int8");
  EXPECT_FALSE(plan[1].contains("note"));
  const Json both = run_json({"inspect", "--model", testing::test_data("models/falcon_h1")});
  EXPECT_EQ(both["cache"]["plan"][0]["layers"], "0-3");
  EXPECT_EQ(both["cache"]["plan"][0]["heads"], 2);
  EXPECT_EQ(both["cache"]["plan"][0]["states"].size(), 2u);
  EXPECT_EQ(both["cache"]["plan"][0]["kind"], "full attention beside a recurrence");
  EXPECT_THAT(both["cache"]["plan"][0]["note"].get<std::string>(), ::testing::HasSubstr("for keys and values"));
}

TEST(InspectCommandTest, NamesTheKindOfEveryLayer) {
  const std::pair<const char*, std::vector<std::string>> kinds[] = {
      {"llama", {"full attention"}},
      {"mistral_window8", {"sliding attention"}},
      {"gpt_oss_window8", {"sliding attention", "full attention"}},
      {"llama4_chunk8", {"chunked attention", "full attention"}},
      {"mamba2", {"recurrence"}},
      {"qwen3_next", {"recurrence", "full attention"}},
      {"deepseek_v3", {"latent attention"}}};
  for (const auto& [name, expected] : kinds) {
    const Json result = run_json({"inspect", "--model", testing::test_data("models/") + name});
    std::vector<std::string> shown;
    for (const Json& row : result["cache"]["plan"]) shown.push_back(row["kind"]);
    EXPECT_EQ(shown, expected) << name;
  }
  const Json t5 = run_json({"inspect", "--model", testing::test_data("models/t5")});
  EXPECT_EQ(t5["cache"]["plan"][0]["kind"], "full attention");
  EXPECT_EQ(t5["cross_cache"]["plan"][0]["kind"], "cross-attention");
}

// T5 has no longest text, Mamba neither that nor heads.
TEST(InspectCommandTest, LeavesOutWhatAModelDoesNotHave) {
  for (const char* name : {"t5", "mamba"}) {
    const Json result = run_json({"inspect", "--model", testing::test_data("models/") + name});
    EXPECT_FALSE(result["model"].contains("max_position_embeddings")) << name;
    EXPECT_EQ(result["model"].contains("head_dim"), std::string(name) == "t5");
    EXPECT_EQ(result["memory"]["length"], 4096) << name;
  }
}

TEST(InspectCommandTest, EstimatesMemoryBeforeLoading) {
  const TinyModel model;
  const auto memory = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"inspect", "--model", model.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments)["memory"];
  };
  const Json whole = memory({"--dtype", "float32"});
  EXPECT_EQ(whole["length"], 512);
  EXPECT_EQ(whole["cache"], 4 * 512 * 2 * (16 + 16) * 4);  // layers, tokens, heads, keys and values, float32
  EXPECT_EQ(whole["weights"], 4 * (512 * 64 + 4 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 128)));  // embeddings stay out
  EXPECT_EQ(whole["total"], whole["weights"].get<int>() + whole["cache"].get<int>() + whole["working"].get<int>());
  const Json some = memory({"--length", "100", "--batch-size", "3", "--dtype", "bfloat16"});
  EXPECT_EQ(some["cache"], 3 * 4 * 128 * 2 * (32 + 16) * 2);  // products of bfloat16 read 32 elements at a time
  EXPECT_EQ(2 * some["weights"].get<int>(), whole["weights"].get<int>());
  EXPECT_EQ(run({"inspect", "--model", model.path(), "--length", "0"}).code, 2);
  EXPECT_EQ(run({"inspect", "--model", model.path(), "--batch-size", "0"}).code, 2);
}

TEST(InspectCommandTest, ReadsAsAPageWithoutJson) {
  const TinyModel model;
  const Finished finished = run({"inspect", "--model", model.path()});
  EXPECT_EQ(finished.code, 0) << finished.err;
  for (const char* part : {"architecture", "bytes_per_token", "instruction_set", "llama", "layers 0-3"}) {
    EXPECT_THAT(finished.out, ::testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace mneme::cli
