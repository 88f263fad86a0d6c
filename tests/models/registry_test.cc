#include "mneme/models/registry.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mneme/base/log.h"
#include "tests/support/places.h"
#include "tests/support/random_model.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using testing::Checkpoint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::random_checkpoint;
using testing::TempFolder;
using testing::thrown;

std::string refusal(const Checkpoint& checkpoint, ErrorKind kind = ErrorKind::kCorruptData) {
  const TempFolder folder;
  return thrown(kind, [&] { load_model(checkpoint.write(folder), {}, at::kCPU); });
}

TEST(Registry, KnowsItsArchitectures) {
  EXPECT_THAT(known_architectures(),
              IsSupersetOf({"bart",      "deepseek_v3", "falcon_h1", "gemma2",      "gemma3_text", "gpt2",   "gpt_oss",
                            "granite",   "lfm2",        "llama",     "llama4_text", "mamba",       "mamba2", "marian",
                            "mbart",     "mistral",     "mixtral",   "olmo2",       "phi3",        "qwen2",  "qwen3",
                            "qwen3_moe", "qwen3_next",  "smollm3",   "t5"}));
  EXPECT_TRUE(std::ranges::is_sorted(known_architectures()));
  for (const std::string& type : known_architectures()) EXPECT_EQ(architecture_of(type).model_type, type);
}

TEST(Registry, AnUnknownTypeIsAnErrorThatListsTheKnown) {
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [] { architecture_of("gpt_neox"); }),
              AllOf(HasSubstr("\"gpt_neox\""),
                    HasSubstr("falcon_h1, gemma2, gemma3_text, gemma4_text, gpt2, gpt_oss, granite, lfm2, llama,")));
  Checkpoint unknown = random_checkpoint();
  unknown.config["model_type"] = "rwkv";
  EXPECT_THAT(refusal(unknown, ErrorKind::kUnsupported), HasSubstr("\"rwkv\""));
}

TEST(LoadModel, TakesTheDtypeOfTheFileOrTheOneAskedFor) {
  const TempFolder folder;
  random_checkpoint("llama", {{"dtype", "bfloat16"}}).write(folder);
  EXPECT_EQ(load_model(folder.path(), {}, at::kCPU)->dtype(), DType::kBFloat16);
  EXPECT_EQ(load_model(folder.path(), DType::kFloat16, at::kCPU)->dtype(), DType::kFloat16);
  EXPECT_EQ(load_model(folder.path(), DType::kFloat32, at::kCPU)->config().model_type, "llama");
}

TEST(LoadModel, KindsAreLoadedByTheirOwnFunctions) {
  const std::string t5 = testing::test_data("models/t5"), llama = testing::test_data("models/llama");
  EXPECT_EQ(load_seq2seq_model(t5, {}, at::kCPU)->dtype(), DType::kBFloat16);
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [&] { load_model(t5, {}, at::kCPU); }),
              HasSubstr("t5 is an encoder-decoder, not a causal language model; load it with AutoModelForSeq2SeqLM"));
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [&] { load_seq2seq_model(llama, {}, at::kCPU); }),
              HasSubstr("load it with AutoModelForCausalLM"));
}

TEST(LoadModel, ReadsGgufFiles) {
  const std::string files = testing::test_data("files/");
  // A llama with a sliding window is a Mistral.
  for (const auto& [name, type] : {std::pair{"llama", "mistral"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}}) {
    const auto model = load_model(files + name + ".gguf", DType::kFloat32, at::kCPU);
    EXPECT_EQ(model->config().model_type, type);
    EXPECT_GT(model->n_bytes(), 0);
  }
}

TEST(LoadModel, WarnsOfTensorsThatNothingAskedFor) {
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& message) { warnings.push_back(message); });
  Checkpoint checkpoint = random_checkpoint();
  checkpoint.add("model.layers.9.extra.weight", {3});
  const TempFolder folder;
  load_model(checkpoint.write(folder), {}, at::kCPU);
  set_warning_handler({});
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("1 tensors"), HasSubstr("model.layers.9.extra.weight"))));
}

// Each tensor of a model, missing: its name is in the error, and there is no half a model.
TEST(LoadModel, EveryMissingTensorIsNamed) {
  for (const char* type : {"llama", "qwen2", "qwen3"}) {
    const Checkpoint whole = random_checkpoint(type, {{"num_hidden_layers", 1}});
    for (const auto& [name, tensor] : whole.tensors) {
      Checkpoint checkpoint = whole;
      checkpoint.tensors.erase(name);
      EXPECT_THAT(refusal(checkpoint), HasSubstr("the tensor " + name + " is missing")) << type;
    }
  }
}

TEST(LoadModel, EveryMisshapenTensorIsNamedWithBothShapes) {
  const Checkpoint whole = random_checkpoint("qwen3", {{"num_hidden_layers", 1}});
  for (const auto& [name, tensor] : whole.tensors) {
    Checkpoint checkpoint = whole;
    Checkpoint::Tensor& bad = checkpoint.tensors[name];
    bad.shape.back() += 1;
    std::int64_t n = 1;
    for (const std::int64_t size : bad.shape) n *= size;
    bad.values.resize(static_cast<std::size_t>(n));
    const auto shown = [](const std::vector<std::int64_t>& shape) {
      return fmt::format("[{}]", fmt::join(shape, ", "));
    };
    EXPECT_THAT(refusal(checkpoint),
                AllOf(HasSubstr(name), HasSubstr(shown(bad.shape)), HasSubstr(shown(tensor.shape))));
  }
}

TEST(LoadModel, ARenamedTensorIsMissing) {
  Checkpoint checkpoint = random_checkpoint();
  auto node = checkpoint.tensors.extract("model.norm.weight");
  node.key() = "model.final_norm.weight";
  checkpoint.tensors.insert(std::move(node));
  EXPECT_THAT(refusal(checkpoint), HasSubstr("model.norm.weight is missing"));
}

TEST(LoadModel, RefusesWhatItCannotCompute) {
  EXPECT_THAT(refusal(random_checkpoint("llama", {{"hidden_act", "relu2"}}), ErrorKind::kUnsupported),
              HasSubstr("relu2"));
  EXPECT_THAT(refusal(random_checkpoint("llama", {{"rope_parameters", {{"rope_type", "spiral"}, {"factor", 2.0}}}}),
                      ErrorKind::kUnsupported),
              HasSubstr("spiral"));
  EXPECT_THAT(refusal(random_checkpoint("llama", {{"head_dim", 15}}), ErrorKind::kInvalidArgument), HasSubstr("15"));
}

TEST(LoadModel, MissingFiles) {
  thrown(ErrorKind::kIo, [] { load_model("/nowhere/at/all", {}, at::kCPU); });
  thrown(ErrorKind::kIo, [] { load_model("/nowhere.gguf", {}, at::kCPU); });
}

}  // namespace
}  // namespace mneme
