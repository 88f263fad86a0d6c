// Whatever is wrong with a model or an input: one sentence, exit 2, no crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInputTest : public ::testing::Test {
 protected:
  std::string generate(const Arguments& more) const {
    Arguments all = {"generate", "--model", model_.path()};
    all.insert(all.end(), more.begin(), more.end());
    return refused(all);
  }
  void edit_json(const char* file, const std::function<void(Json&)>& edit) const {
    Json json = read_json_file(model_.path(file));
    edit(json);
    model_.write(file, json.dump());
  }
  TinyModel model_;
};

TEST_F(BadInputTest, MissingModel) {
  EXPECT_THAT(refused({"generate", "--model", "/no/such/model", "--ids", "1"}), HasSubstr("/no/such/model"));
  EXPECT_THAT(refused({"inspect", "--model", "/no/such.gguf"}), HasSubstr("/no/such.gguf"));
  EXPECT_THAT(refused({"generate", "--model", "nobody/nothing", "--ids", "1"}),
              HasSubstr("hf download nobody/nothing"));
  EXPECT_THAT(refused({"generate", "--ids", "1"}, {.variables = {{"MNEME_CACHE", "/no/cache"}}}),
              HasSubstr("make setup"));
}

TEST_F(BadInputTest, MissingFilesOfAModel) {
  for (const char* file : {"model.safetensors", "config.json"}) {
    const TinyModel model;
    std::filesystem::remove(model.path(file));
    EXPECT_THAT(refused({"generate", "--model", model.path(), "--ids", "1"}), HasSubstr(file));
  }
  std::filesystem::remove(model_.path("tokenizer.json"));
  EXPECT_THAT(generate({"--prompt", "a"}), HasSubstr("tokenizer.json"));
}

TEST_F(BadInputTest, TruncatedWeights) {
  const std::string path = model_.path("model.safetensors");
  const auto size = std::filesystem::file_size(path);
  for (const auto kept :
       {size - 1, size / 2, std::uintmax_t{100}, std::uintmax_t{8}, std::uintmax_t{7}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, kept);
    EXPECT_THAT(generate({"--ids", "1"}), HasSubstr("model.safetensors")) << kept;
  }
}

TEST_F(BadInputTest, HeaderLongerThanTheFile) {
  std::string weights = testing::read_file(model_.path("model.safetensors"));
  weights[5] = '\x7f';  // the length of the header, in its sixth byte
  model_.write("model.safetensors", weights);
  EXPECT_THAT(generate({"--ids", "1"}), HasSubstr("header"));
}

TEST_F(BadInputTest, TruncatedGguf) {
  const std::string whole = testing::read_file(testing::test_data("files/llama.gguf"));
  const TempFolder folder;
  for (const std::size_t kept : {std::size_t{0}, std::size_t{3}, std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
    const std::string path = folder.write("cut.gguf", whole.substr(0, kept));
    EXPECT_THAT(refused({"generate", "--model", path, "--ids", "1"}), HasSubstr("cut.gguf")) << kept;
  }
}

TEST_F(BadInputTest, UnknownArchitectureOrDtype) {
  edit_json("config.json", [](Json& config) { config["model_type"] = "rnn"; });
  EXPECT_THAT(generate({"--ids", "1"}), AllOf(HasSubstr("rnn"), HasSubstr("llama")));
  EXPECT_THAT(refused({"inspect", "--model", model_.path()}), HasSubstr("rnn"));
  edit_json("config.json", [](Json& config) { config["model_type"] = "llama", config["dtype"] = "float8_e3m4"; });
  EXPECT_THAT(generate({"--ids", "1"}), HasSubstr("float8_e3m4"));
  EXPECT_THAT(generate({"--ids", "1", "--dtype", "int4"}), AllOf(HasSubstr("int4"), HasSubstr("bfloat16")));
}

TEST_F(BadInputTest, UnknownDtypeOfATensor) {
  std::string weights = testing::read_file(model_.path("model.safetensors"));
  weights.replace(weights.find("BF16"), 4, "I3_2");
  model_.write("model.safetensors", weights);
  EXPECT_THAT(generate({"--ids", "1"}), HasSubstr("I3_2"));
}

TEST_F(BadInputTest, IdsOutsideTheVocabulary) {
  EXPECT_THAT(generate({"--ids", "1,512"}), AllOf(HasSubstr("512"), HasSubstr("vocabulary")));
  EXPECT_THAT(generate({"--ids", "1,-1"}), HasSubstr("-1"));
  EXPECT_THAT(generate({"--ids", "1,two"}), HasSubstr("two"));
  EXPECT_THAT(generate({"--ids", "1,99999999999999999999"}), HasSubstr("99999999999999999999"));
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--ids", "1,2,3,512", "--prefill", "1"}), HasSubstr("512"));
}

TEST_F(BadInputTest, EmptyPrompt) {
  EXPECT_THAT(generate({"--prompt", ""}), HasSubstr("empty prompt"));
  EXPECT_THAT(generate({"--ids", ""}), HasSubstr("empty prompt"));
  EXPECT_THAT(generate({"--ids", "1", "--prompt", ""}), HasSubstr("empty prompt"));
  EXPECT_THAT(generate({"--prompt-file", "/no/prompt"}), HasSubstr("/no/prompt"));
  EXPECT_THAT(generate({"--prompt-file", model_.path()}), HasSubstr("folder"));
}

TEST_F(BadInputTest, PromptPastThePositions) {
  std::string ids = "1";
  for (int i = 0; i < 512; ++i) ids += ",7";
  EXPECT_THAT(generate({"--ids", ids, "--max-new-tokens", "1"}), AllOf(HasSubstr("513"), HasSubstr("512")));
}

TEST_F(BadInputTest, BrokenJson) {
  model_.write("config.json", "{\"model_type\": ");
  EXPECT_THAT(generate({"--ids", "1"}), HasSubstr("config.json"));
  const TinyModel other;
  other.write("generation_config.json", "[");
  EXPECT_THAT(refused({"generate", "--model", other.path(), "--ids", "1"}), HasSubstr("generation_config.json"));
  other.write("tokenizer.json", "nonsense");
  EXPECT_THAT(refused({"tokenize", "--model", other.path(), "--text", "a"}), HasSubstr("tokenizer.json"));
  EXPECT_THAT(refused({"render", "--messages", "-", "--model", model_.path()}, {.input = "[{]"}), HasSubstr("JSON"));
}

TEST_F(BadInputTest, BrokenTemplate) {
  edit_json("tokenizer_config.json", [](Json& config) { config["chat_template"] = "{% for m in messages %}{{ m."; });
  EXPECT_THAT(generate({"--chat", "--prompt", "a"}), HasSubstr("chat template"));
  EXPECT_THAT(refused({"render", "--messages", "-", "--model", model_.path()}, {.input = "[]"}), HasSubstr("line 1"));
  edit_json("tokenizer_config.json", [](Json& config) { config.erase("chat_template"); });
  EXPECT_THAT(generate({"--chat", "--prompt", "a"}), HasSubstr("no chat template"));
}

TEST_F(BadInputTest, MessagesThatTheTemplateRefuses) {
  EXPECT_THAT(refused({"render", "--messages", "-", "--model", model_.path()},
                      {.input = R"([{"role": "tool", "content": ""}])"}),
              HasSubstr("no tools here"));
  EXPECT_THAT(refused({"render", "--messages", "-", "--model", model_.path()}, {.input = "{}"}), HasSubstr("list"));
}

TEST_F(BadInputTest, ValuesOutsideTheirRange) {
  const std::pair<const char*, const char*> cases[] = {
      {"--temperature", "-1"},       {"--temperature", "nan"}, {"--top-k", "-1"},     {"--top-p", "1.5"},
      {"--min-p", "-0.1"},           {"--threads", "0"},       {"--threads", "9999"}, {"--repetition-penalty", "0"},
      {"--prefill-chunk-size", "0"}, {"--max-time", "0"},      {"--max-length", "1"}, {"--max-new-tokens", "-1"},
      {"--min-new-tokens", "-1"},    {"--seed", "-1"},         {"--seed", "1e5"},     {"--device", "abacus"}};
  for (const auto& [flag, value] : cases) EXPECT_NE(generate({"--ids", "1,2", flag, value}), "") << flag;
}

TEST_F(BadInputTest, ValuesAreRefusedBeforeTheModelIsLoaded) {
  std::filesystem::remove(model_.path("config.json"));
  EXPECT_THAT(generate({"--ids", "1", "--temperature", "-1"}), HasSubstr("temperature"));
  EXPECT_THAT(generate({"--ids", "1", "--max-length", "9999999999"}), HasSubstr("max_length"));
  EXPECT_THAT(generate({"--ids", "1", "--max-cache-len", "10"}), HasSubstr("static"));
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--ids", "1", "--prefill", "0"}), HasSubstr("prefill"));
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--ids", "1", "--prefill", "9223372036854775807"}),
              HasSubstr("9223372036854775807"));
}

TEST_F(BadInputTest, LogitsGoIntoTheJson) { EXPECT_THAT(generate({"--ids", "1", "--logits"}), HasSubstr("--json")); }

TEST_F(BadInputTest, PathsThatTheSystemRefuses) {
  EXPECT_THAT(refused({"generate", "--model", std::string(5000, 'x'), "--ids", "1"}), HasSubstr("cannot read xxx"));
  EXPECT_THAT(refused({"generate", "--model", model_.path("config.json"), "--ids", "1"}), HasSubstr("model folder"));
}

TEST_F(BadInputTest, AFileThatOutgrowsTheShellsLimit) {
  const std::string path = model_.path("kept.cache");
  const std::string command = "ulimit -f 1; exec '" + testing::built("mneme") + "' generate --model '" + model_.path() +
                              "' --ids 1,2,3 --max-new-tokens 2 --prompt-cache '" + path + "'";
  const Finished finished = Process({"/bin/sh", "-c", command}).finish();
  EXPECT_EQ(finished.code, 0) << "signal " << finished.signal;  // the text is there, and a warning
  EXPECT_THAT(finished.err, AllOf(HasSubstr(path), HasSubstr("too large")));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(BadInputTest, WeightsThatAreNoNumbers) {
  std::string weights = testing::read_file(model_.path("model.safetensors"));
  for (std::size_t i = weights.size() - 512; i < weights.size(); ++i) weights[i] = '\xff';  // NaN in bfloat16
  model_.write("model.safetensors", weights);
  for (const char* flag : {"--ignore-eos", "--do-sample"}) {
    const Finished finished = run({"generate", "--model", model_.path(), "--ids", "1", flag});
    EXPECT_EQ(finished.code, 1) << "signal " << finished.signal;
    EXPECT_THAT(finished.err, HasSubstr("not finite"));
  }
}

TEST_F(BadInputTest, CachesThatCannotBe) {
  EXPECT_THAT(generate({"--ids", "1", "--cache-implementation", "paper"}),
              AllOf(HasSubstr("paper"), HasSubstr("offloaded_static"), HasSubstr("quantized")));
  EXPECT_THAT(generate({"--ids", "1", "--cache-config", R"({"nbits": 3})"}), AllOf(HasSubstr("3"), HasSubstr("4, 2")));
  EXPECT_THAT(generate({"--ids", "1", "--cache-config", R"({"bits": 4})"}), HasSubstr("nbits"));
  EXPECT_THAT(generate({"--ids", "1", "--cache-config", "{"}), HasSubstr("--cache-config"));
  EXPECT_THAT(generate({"--ids", "1,2,3", "--cache-implementation", "static", "--max-cache-len", "10",
                        "--max-new-tokens", "8"}),
              AllOf(HasSubstr("3"), HasSubstr("8"), HasSubstr("10")));
  EXPECT_THAT(generate({"--ids", "1", "--max-cache-len", "10"}), HasSubstr("static"));
  EXPECT_THAT(generate({"--ids", "1", "--no-use-cache", "--cache-implementation", "static"}), HasSubstr("static"));
  EXPECT_THAT(generate({"--ids", "1", "--cache-config", R"({"nbits": 4, "nbits": 2})"}), HasSubstr("nbits"));
}

TEST_F(BadInputTest, AnUnknownInstructionSet) {
  const Finished finished =
      run({"generate", "--model", model_.path(), "--ids", "1"}, {.variables = {{"MNEME_ISA", "abacus"}}});
  EXPECT_EQ(finished.code, 2) << finished.signal;
  EXPECT_THAT(finished.err, HasSubstr("abacus"));
}

TEST_F(BadInputTest, NllThatCannotBe) {
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--prefill", "1"}), HasSubstr("--ids"));
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--ids", "1,2,3"}), HasSubstr("--prefill"));
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--ids", "1,2,3", "--prefill", "2"}), HasSubstr("2"));
  EXPECT_THAT(refused({"nll", "--model", model_.path(), "--ids", "1,2,3", "--prefill", "0"}), HasSubstr("0"));
}

}  // namespace
}  // namespace mneme::cli
