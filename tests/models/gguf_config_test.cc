#include "mneme/models/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "mneme/base/error.h"
#include "mneme/models/config.h"
#include "tests/support/files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using testing::gguf_string;
using ::testing::HasSubstr;
using testing::raw;
using testing::thrown;

ModelConfig fixture(const std::string& name) {
  return ModelConfig::from_pretrained(testing::test_data("files/") + name + ".gguf");
}

TEST(GgufConfig, GivesTheKeysOfConfigJson) {
  const ModelConfig config = fixture("llama");
  EXPECT_EQ(config.model_type, "mistral");  // a llama with a window
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_EQ(config.vocab_size, 32);
  EXPECT_EQ(config.hidden_size, 16);
  EXPECT_EQ(config.intermediate_size, 24);
  EXPECT_EQ(config.num_hidden_layers, 1);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.max_position_embeddings, 128);
  EXPECT_FLOAT_EQ(static_cast<float>(config.rms_norm_eps), 1e-5f);
  EXPECT_EQ(config.rope.rope_type, "default");
  EXPECT_EQ(config.rope.rope_theta, 5e5);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_THAT(config.eos_token_id, ElementsAre(2, 5));
  EXPECT_EQ(config.dtype, DType::kBFloat16);
}

TEST(GgufConfig, TensorsDecideTiesAndBiases) {
  EXPECT_TRUE(fixture("qwen3").tie_word_embeddings);
  EXPECT_EQ(fixture("qwen3").head_dim, 8);
  EXPECT_FALSE(fixture("qwen2").tie_word_embeddings);
  EXPECT_TRUE(fixture("qwen2").attention_bias);
  EXPECT_EQ(fixture("qwen2").sliding_window, std::nullopt);
}

TEST(GgufConfig, KnowsLlama3ByItsFactors) {
  const RopeConfig rope = fixture("llama3_freqs").rope;
  EXPECT_EQ(rope.rope_type, "llama3");
  EXPECT_EQ(rope.rope_theta, 5e5);
  EXPECT_EQ(rope.factor, 32.0);
  EXPECT_EQ(rope.low_freq_factor, 1.0);
  EXPECT_EQ(rope.high_freq_factor, 4.0);
  EXPECT_EQ(rope.original_max_position_embeddings, 8192);
}

/// A whole llama in metadata, its embedding the only tensor.
testing::GgufWriter model() {
  testing::GgufWriter file;
  file.keys = {{"general.architecture", 8, gguf_string("llama")},
               {"llama.block_count", 4, raw(2u)},
               {"llama.context_length", 4, raw(64u)},
               {"llama.embedding_length", 4, raw(16u)},
               {"llama.feed_forward_length", 4, raw(24u)},
               {"llama.attention.head_count", 4, raw(4u)},
               {"llama.attention.layer_norm_rms_epsilon", 6, raw(1e-6f)}};
  file.tensors = {{"token_embd.weight", {16, 2}}};
  file.data.assign(128, '\0');
  return file;
}

Json config_of(const testing::GgufWriter& file) {
  const std::string content = file.str();
  return config_from_gguf(GgufFile(testing::bytes_of(content), "x.gguf"));
}

testing::GgufWriter with(testing::GgufWriter::Key key) {
  testing::GgufWriter file = model();
  for (auto& existing : file.keys) {
    if (existing.name == key.name) {
      existing = key;
      return file;
    }
  }
  file.keys.push_back(std::move(key));
  return file;
}

std::string refusal(const testing::GgufWriter& file, ErrorKind kind = ErrorKind::kCorruptData) {
  const std::string message = thrown(kind, [&] { ModelConfig::from_json(config_of(file), "x.gguf"); });
  EXPECT_THAT(message, HasSubstr("x.gguf"));
  return message;
}

TEST(GgufConfig, ReadsLinearScaling) {
  testing::GgufWriter file = with({"llama.rope.scaling.type", 8, gguf_string("linear")});
  file.keys.push_back({"llama.rope.scaling.factor", 6, raw(4.0f)});
  EXPECT_EQ(config_of(file)["rope_parameters"].dump(), R"({"rope_type":"linear","rope_theta":10000.0,"factor":4.0})");
  EXPECT_EQ(config_of(model())["rope_parameters"].dump(), R"({"rope_type":"default","rope_theta":10000.0})");
}

/// The model under another architecture's name.
testing::GgufWriter renamed(const std::string& architecture) {
  testing::GgufWriter file = model();
  for (auto& key : file.keys) {
    if (key.name == "general.architecture") key.value = gguf_string(architecture);
    if (key.name.starts_with("llama.")) key.name = architecture + key.name.substr(5);
  }
  return file;
}

TEST(GgufConfig, ReadsWhatOneArchitectureHas) {
  testing::GgufWriter gemma = renamed("gemma2");
  gemma.keys.push_back({"gemma2.attention.sliding_window", 4, raw(8u)});
  gemma.keys.push_back({"gemma2.attn_logit_softcapping", 6, raw(50.0f)});
  gemma.keys.push_back({"gemma2.final_logit_softcapping", 6, raw(30.0f)});
  const Json gemma2 = config_of(gemma);
  EXPECT_EQ(gemma2["model_type"], "gemma2");
  EXPECT_EQ(gemma2["sliding_window"], 8);
  EXPECT_EQ(gemma2["attn_logit_softcapping"], 50.0);
  EXPECT_EQ(gemma2["query_pre_attn_scalar"], gemma2["head_dim"]);
  EXPECT_EQ(config_of(renamed("gemma3"))["model_type"], "gemma3_text");
  EXPECT_TRUE(config_of(renamed("gemma3"))["final_logit_softcapping"].is_null());
  testing::GgufWriter gemma3 = renamed("gemma3");
  gemma3.keys.push_back({"gemma3.rope.freq_base_swa", 6, raw(20000.0f)});
  EXPECT_EQ(config_of(gemma3)["rope_local_base_freq"], 20000.0);

  testing::GgufWriter phi = renamed("phi3");
  phi.keys.push_back({"phi3.rope.dimension_count", 4, raw(2u)});
  EXPECT_EQ(config_of(phi)["rope_parameters"]["partial_rotary_factor"], 0.5);
  EXPECT_TRUE(config_of(phi)["sliding_window"].is_null());

  testing::GgufWriter moe = renamed("qwen3moe");
  EXPECT_THAT(refusal(moe), HasSubstr("expert_count is missing"));
  moe.keys.push_back({"qwen3moe.expert_count", 4, raw(8u)});
  moe.keys.push_back({"qwen3moe.expert_used_count", 4, raw(2u)});
  moe.keys.push_back({"qwen3moe.expert_feed_forward_length", 4, raw(12u)});
  const Json experts = config_of(moe);
  EXPECT_EQ(experts["model_type"], "qwen3_moe");
  EXPECT_EQ(experts["num_local_experts"], 8);
  EXPECT_EQ(experts["moe_intermediate_size"], 12);
  EXPECT_EQ(experts["norm_topk_prob"], true);
}

ModelConfig converted(const std::string& name) {
  return ModelConfig::from_pretrained(testing::test_data("gguf/") + name + ".gguf");
}

TEST(GgufConfig, ReadsGptOss) {
  const ModelConfig config = converted("gpt-oss");
  EXPECT_EQ(config.model_type, "gpt_oss");
  EXPECT_EQ(config.intermediate_size, 32);
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_EQ(config.rope.rope_type, "yarn");
  EXPECT_EQ(config.rope.beta_fast, 24.0);
  EXPECT_EQ(config.rope.beta_slow, 1.5);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 16);
  EXPECT_FALSE(config.rope.truncate);
}

TEST(GgufConfig, ALengthOfLongropeIsTheFiles) {
  EXPECT_EQ(converted("phi3").rope.original_max_position_embeddings, 32);
  EXPECT_EQ(converted("phi3").rope.long_factor, (std::vector<double>{3.0, 3.5, 4.0, 4.5}));
}

/// A model's metadata without its attention.
testing::GgufWriter mamba() {
  testing::GgufWriter file = renamed("mamba");
  for (const char* key : {"inner_size", "state_size", "conv_kernel", "time_step_rank"}) {
    file.keys.push_back({std::string("mamba.ssm.") + key, 4, raw(4u)});
  }
  return file;
}

TEST(GgufConfig, ReadsMamba) {
  const ModelConfig config = converted("mamba");
  EXPECT_EQ(config.intermediate_size, 64);
  EXPECT_EQ(config.raw["state_size"], 8);
  EXPECT_EQ(config.raw["time_step_rank"], 2);
  EXPECT_EQ(config.max_position_embeddings, INT32_MAX);  // what the file says is made up
  testing::GgufWriter file = mamba();
  EXPECT_EQ(config_of(file)["use_conv_bias"], false);
  file.keys.push_back({"mamba.ssm.dt_b_c_rms", 7, raw(std::uint8_t{1})});
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [&] { config_of(file); }), HasSubstr("Falcon Mamba"));
  file = mamba();
  file.keys.pop_back();
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { config_of(file); }), HasSubstr("mamba.ssm.time_step_rank"));
}

/// Key/value heads layer by layer.
testing::GgufWriter lfm2(std::vector<std::uint32_t> heads) {
  testing::GgufWriter file = renamed("lfm2");
  std::string list = raw(4u) + raw<std::uint64_t>(heads.size());
  for (const std::uint32_t n : heads) list += raw(n);
  file.keys.push_back({"lfm2.attention.head_count_kv", 9, list});
  file.keys.push_back({"lfm2.shortconv.l_cache", 4, raw(3u)});
  return file;
}

TEST(GgufConfig, Lfm2ConvolvesWhereThereAreNoHeads) {
  const Json config = config_of(lfm2({0, 2}));
  EXPECT_EQ(config["layer_types"].dump(), R"(["conv","full_attention"])");
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["conv_L_cache"], 3);
  EXPECT_EQ(config["block_auto_adjust_ff_dim"], false);
  EXPECT_EQ(config_of(lfm2({0, 0}))["num_key_value_heads"], 4);
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [] { config_of(lfm2({0, 2, 2})); }), HasSubstr("lists 3 of 2 layers"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [] { config_of(lfm2({1, 2})); }), HasSubstr("layer 1 has another"));
  testing::GgufWriter file = lfm2({});
  file.keys[file.keys.size() - 2] = {"lfm2.attention.head_count_kv", 4, raw(2u)};
  EXPECT_EQ(config_of(file)["num_key_value_heads"], 2);
  EXPECT_THAT(ModelConfig::from_json(config_of(file), "x.gguf").layer_types,
              ElementsAre(LayerType::kFullAttention, LayerType::kFullAttention));
  file.keys[1] = {"lfm2.block_count", 10, raw(std::uint64_t{1} << 62)};  // one number for all: no list is made of it
  EXPECT_THAT(refusal(file), HasSubstr("num_hidden_layers"));
}

TEST(GgufConfig, NeedsEverySize) {
  for (std::size_t i = 1; i < model().keys.size(); ++i) {
    testing::GgufWriter file = model();
    const std::string name = file.keys[i].name;
    file.keys.erase(file.keys.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(refusal(file), HasSubstr(name + " is missing"));
    EXPECT_THAT(refusal(with({name, 8, gguf_string("16")})), HasSubstr(name));
    EXPECT_THAT(refusal(with({name, 11, raw(std::int64_t{-3})})), HasSubstr("x.gguf"));
  }
  testing::GgufWriter file = model();
  file.tensors[0].name = "other";
  EXPECT_THAT(refusal(file), HasSubstr("token_embd.weight is missing"));
}

TEST(GgufConfig, RefusesWhatTheArchitecturesDoNotHave) {
  EXPECT_THAT(refusal(with({"llama.expert_count", 4, raw(8u)}), ErrorKind::kUnsupported), HasSubstr("8 experts"));
  EXPECT_THAT(refusal(with({"llama.attention.value_length", 4, raw(8u)}), ErrorKind::kUnsupported),
              HasSubstr("keys of 4 and values of 8"));
  EXPECT_THAT(refusal(with({"llama.rope.dimension_count", 4, raw(2u)}), ErrorKind::kUnsupported),
              HasSubstr("only 2 are rotated"));
  EXPECT_THAT(refusal(with({"llama.rope.dimension_count", 4, raw(6u)})), HasSubstr("6 numbers of a head of 4"));
  EXPECT_THAT(refusal(with({"llama.attention.head_count_kv", 4, raw(3u)})), HasSubstr("4 by 3"));
  testing::GgufWriter file = model();
  file.tensors.push_back({"rope_freqs.weight", {2}});
  EXPECT_THAT(refusal(file, ErrorKind::kUnsupported), HasSubstr("not those of Llama 3"));
  file.tensors.back().type = 1;
  EXPECT_THAT(refusal(file, ErrorKind::kUnsupported), HasSubstr("must be a vector of F32"));
}

TEST(GgufConfig, LeavesAnUnknownArchitectureToTheRegistry) {
  EXPECT_EQ(config_of(with({"general.architecture", 8, gguf_string("starcoder")})).dump(),
            R"({"model_type":"starcoder"})");
}

}  // namespace
}  // namespace mneme
