#include "mneme/models/gguf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/base/error.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using Heads = CheckpointName::Heads;
using ::testing::HasSubstr;

TEST(GgufNames, TranslatesModelAndLayers) {
  const GgufNames names("llama", "x.gguf");
  EXPECT_EQ(names("token_embd.weight").name, "model.embed_tokens.weight");
  EXPECT_EQ(names("output_norm.weight").name, "model.norm.weight");
  EXPECT_EQ(names("output.weight").name, "lm_head.weight");
  EXPECT_EQ(names("blk.0.attn_q.weight").name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(names("blk.12.attn_output.bias").name, "model.layers.12.self_attn.o_proj.bias");
  EXPECT_EQ(names("blk.7.ffn_norm.weight").name, "model.layers.7.post_attention_layernorm.weight");
  EXPECT_EQ(GgufNames("qwen3", "x.gguf")("blk.3.attn_k_norm.weight").name, "model.layers.3.self_attn.k_norm.weight");
}

TEST(GgufNames, KnowsTheLayersOfOthers) {
  const auto name = [](const char* architecture, const char* gguf) {
    return GgufNames(architecture, "x.gguf")(gguf).name;
  };
  EXPECT_EQ(name("gemma2", "blk.0.ffn_norm.weight"), "model.layers.0.pre_feedforward_layernorm.weight");
  EXPECT_EQ(name("gemma3", "blk.0.post_attention_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(name("phi3", "blk.1.attn_qkv.weight"), "model.layers.1.self_attn.qkv_proj.weight");
  EXPECT_EQ(name("phi3", "blk.1.ffn_up.weight"), "model.layers.1.mlp.gate_up_proj.weight");
  EXPECT_EQ(name("qwen3moe", "blk.2.ffn_gate_inp.weight"), "model.layers.2.mlp.gate.weight");
  EXPECT_EQ(name("qwen3moe", "blk.2.ffn_down_exps.weight"), "model.layers.2.mlp.experts.down_proj.weight");
  EXPECT_EQ(name("gpt-oss", "blk.0.ffn_gate_exps.bias"), "model.layers.0.mlp.experts.gate_proj.bias");
  EXPECT_EQ(name("gpt-oss", "blk.0.attn_sinks.weight"), "model.layers.0.self_attn.sinks");
  EXPECT_EQ(name("mamba", "token_embd.weight"), "backbone.embeddings.weight");
  EXPECT_EQ(name("mamba", "blk.1.ssm_a"), "backbone.layers.1.mixer.A");
  EXPECT_EQ(name("mamba", "blk.1.ssm_dt.bias"), "backbone.layers.1.mixer.dt_proj.bias");
  EXPECT_EQ(name("lfm2", "token_embd_norm.weight"), "model.embedding_norm.weight");
  EXPECT_EQ(name("lfm2", "blk.3.shortconv.in_proj.weight"), "model.layers.3.conv.in_proj.weight");
}

TEST(GgufNames, TapsOfConvolutionsLackASize) {
  const GgufNames lfm2("lfm2", "x.gguf"), mamba("mamba", "x.gguf");
  EXPECT_TRUE(lfm2("blk.0.shortconv.conv.weight").depthwise);
  EXPECT_TRUE(mamba("blk.0.ssm_conv1d.weight").depthwise);
  EXPECT_FALSE(mamba("blk.0.ssm_conv1d.bias").depthwise);
  EXPECT_FALSE(lfm2("blk.0.shortconv.in_proj.weight").depthwise);
}

TEST(GgufNames, OnlyLlamaPermutesQueriesAndKeys) {
  const GgufNames llama("llama", "x.gguf");
  EXPECT_EQ(llama("blk.0.attn_q.weight").permuted, Heads::kQuery);
  EXPECT_EQ(llama("blk.0.attn_q.bias").permuted, Heads::kQuery);
  EXPECT_EQ(llama("blk.0.attn_k.weight").permuted, Heads::kKeyValue);
  EXPECT_EQ(llama("blk.0.attn_v.weight").permuted, Heads::kNotPermuted);
  for (const char* other : {"qwen2", "qwen3"}) {
    EXPECT_EQ(GgufNames(other, "x.gguf")("blk.0.attn_q.weight").permuted, Heads::kNotPermuted);
  }
}

TEST(GgufNames, LeavesOtherNamesAlone) {
  const GgufNames names("llama", "x.gguf");
  for (const char* name :
       {"", ".", "blk", "blk.", "blk.0", "blk.0.weight", "blk..attn_q.weight", "blk.x.attn_q.weight",
        "blk.0.attn_q.scale", "blk.0.nothing.weight", "blk.0.ssm_a", "attn_q.weight", "rope_freqs.weight"}) {
    EXPECT_EQ(names(name).name, name);
    EXPECT_EQ(names(name).permuted, Heads::kNotPermuted);
  }
}

TEST(GgufNames, RefusesAnUnknownArchitectureWithTheKnownOnes) {
  const std::string message = testing::thrown(ErrorKind::kUnsupported, [] { GgufNames("starcoder", "x.gguf"); });
  EXPECT_THAT(message, HasSubstr("x.gguf: the GGUF architecture \"starcoder\" is not supported; supported are llama"));
}

}  // namespace
}  // namespace mneme
