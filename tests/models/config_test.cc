#include "mneme/models/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "mneme/base/error.h"
#include "mneme/models/config_defaults.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown;

ModelConfig from_text(const std::string& text) { return ModelConfig::from_json(parse_json(text, "x.json"), "x.json"); }

/// A llama of which `keys` say more.
ModelConfig llama(const std::string& keys) { return from_text(R"({"model_type":"llama",)" + keys + "}"); }

std::string refusal(const std::string& keys, ErrorKind kind = ErrorKind::kCorruptData) {
  const std::string message = thrown(kind, [&] { llama(keys); });
  EXPECT_THAT(message, HasSubstr("x.json")) << keys;
  return message;
}

std::string name_of(LayerType type) {
  switch (type) {
    case LayerType::kFullAttention: return "full_attention";
    case LayerType::kSlidingAttention: return "sliding_attention";
    case LayerType::kChunkedAttention: return "chunked_attention";
    case LayerType::kConv: return "conv";
    case LayerType::kLinearAttention: return "linear_attention";
  }
  return "?";
}

Json optional(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

/// The members of a configuration under the keys that the Python class has.
Json as_python(const ModelConfig& config) {
  Json json = {{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"num_key_value_heads", config.num_key_value_heads},
               {"head_dim", config.head_dim},
               {"max_position_embeddings", config.max_position_embeddings},
               {"rms_norm_eps", config.rms_norm_eps},
               {"hidden_act", config.hidden_act},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"attention_bias", config.attention_bias},
               {"mlp_bias", config.mlp_bias},
               {"bos_token_id", optional(config.bos_token_id)},
               {"pad_token_id", optional(config.pad_token_id)},
               {"eos_token_id", config.eos_token_id},
               {"sliding_window", optional(config.sliding_window)},
               {"dtype", name_of(config.dtype)}};
  for (const LayerType type : config.layer_types) json["layer_types"].push_back(name_of(type));
  return json;
}

TEST(Config, AgreesWithTheConfigurationClassesOfPython) {
  for (const Json& item : read_json_file(testing::test_data("files/configs.json"))) {
    const ModelConfig config = ModelConfig::from_json(item["config"], "x.json");
    Json expected = item["expected"];
    const Json rope = expected["rope_parameters"];
    expected.erase("rope_parameters");
    const Json got = as_python(config);
    for (const auto& [key, value] : expected.items()) EXPECT_EQ(got.at(key), value) << key << " of " << item["config"];
    EXPECT_EQ(config.rope.rope_type, rope["rope_type"]) << item["config"];
    EXPECT_EQ(config.rope.rope_theta, rope["rope_theta"]) << item["config"];
    EXPECT_EQ(config.rope.factor, rope.value("factor", 1.0)) << item["config"];
    EXPECT_EQ(config.rope.low_freq_factor, rope.value("low_freq_factor", 1.0)) << item["config"];
    EXPECT_EQ(config.rope.high_freq_factor, rope.value("high_freq_factor", 4.0)) << item["config"];
    EXPECT_EQ(config.rope.original_max_position_embeddings,
              rope.value("original_max_position_embeddings", config.max_position_embeddings))
        << item["config"];
  }
}

TEST(Config, ReadsTheFoldersOfTheReferenceModels) {
  const auto config = [](const std::string& name) {
    return ModelConfig::from_pretrained(testing::test_data("models/") + name);
  };
  EXPECT_EQ(config("llama").name, testing::test_data("models/llama"));
  EXPECT_EQ(config("llama").dtype, DType::kBFloat16);
  EXPECT_EQ(config("llama_rope3").rope.rope_type, "llama3");
  EXPECT_EQ(config("llama_rope3").rope.factor, 8.0);
  EXPECT_EQ(config("llama_rope3").rope.original_max_position_embeddings, 64);
  EXPECT_TRUE(config("llama_rope3").tie_word_embeddings);
  EXPECT_EQ(config("mistral_window8").sliding_window, 8);
  EXPECT_EQ(config("mistral_window8").layer_types, std::vector<LayerType>(4, LayerType::kSlidingAttention));
  EXPECT_EQ(config("qwen2").sliding_window, std::nullopt);
  EXPECT_TRUE(config("qwen2").attention_bias);
  EXPECT_EQ(config("qwen3").head_dim, 32);
}

TEST(Config, Gemma4RotatesByTypeAndItsLastLayerIsFull) {
  const auto gemma4 = [](const std::string& keys) { return from_text(R"({"model_type":"gemma4_text")" + keys + "}"); };
  const ModelConfig config = gemma4("");
  EXPECT_EQ(config.rope.rope_type, "proportional");
  EXPECT_EQ(config.rope.rope_theta, 1e6);
  EXPECT_EQ(config.rope.partial_rotary_factor, 0.25);
  EXPECT_EQ(config.sliding_rope->rope_theta, 1e4);
  EXPECT_EQ(config.sliding_rope->partial_rotary_factor, 1.0);
  EXPECT_EQ(config.hidden_size_per_layer_input, 256);
  EXPECT_EQ(config.sliding_window, 512);
  const ModelConfig eight = gemma4(R"(,"num_hidden_layers":8)");
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(eight.layer_types[i], i == 5 || i == 7 ? LayerType::kFullAttention : LayerType::kSlidingAttention) << i;
  EXPECT_EQ(gemma4(R"(,"hidden_size_per_layer_input":0)").hidden_size_per_layer_input, 0);
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { gemma4(R"(,"hidden_size_per_layer_input":-1)"); }),
              HasSubstr("\"hidden_size_per_layer_input\" is -1, it must be 0 to"));
}

// Types that call the usual sizes otherwise. Layers are the decoder's.
TEST(Config, ReadsTheNamesOfAModelTypeItself) {
  const auto t5 = [](const std::string& keys) { return from_text(R"({"model_type":"t5")" + keys + "}"); };
  const ModelConfig small = t5("");
  EXPECT_EQ(small.vocab_size, 32128);
  EXPECT_EQ(small.hidden_size, 512);
  EXPECT_EQ(small.intermediate_size, 2048);
  EXPECT_EQ(small.head_dim, 64);
  EXPECT_EQ(small.num_attention_heads, 8);
  EXPECT_EQ(small.num_hidden_layers, 6);
  EXPECT_EQ(small.rms_norm_eps, 1e-6);
  EXPECT_EQ(small.max_position_embeddings, INT32_MAX);
  EXPECT_EQ(small.eos_token_id, std::vector<std::int64_t>{1});
  EXPECT_EQ(t5(R"(,"num_layers":3)").num_hidden_layers, 3);
  EXPECT_EQ(t5(R"(,"num_layers":3,"num_decoder_layers":null)").num_hidden_layers, 3);
  EXPECT_EQ(t5(R"(,"num_layers":3,"num_decoder_layers":5)").num_hidden_layers, 5);
  EXPECT_EQ(t5(R"(,"layer_norm_epsilon":0.5,"d_model":96)").rms_norm_eps, 0.5);
  EXPECT_EQ(t5(R"(,"hidden_size":96)").hidden_size, 512);  // means nothing to this type
}

TEST(Config, ErrorsNameTheKeyOfTheFile) {
  const auto refused = [](const std::string& keys) {
    return thrown(ErrorKind::kCorruptData, [&] { from_text(R"({"model_type":"t5",)" + keys + "}"); });
  };
  for (const char* key : {"d_model", "d_kv", "d_ff", "num_heads", "num_layers", "num_decoder_layers"}) {
    for (const char* value : {"0", "-1", "\"8\"", "2147483648"}) {
      EXPECT_THAT(refused(fmt::format(R"("{}":{})", key, value)), HasSubstr(fmt::format("\"{}\"", key))) << value;
    }
  }
  EXPECT_THAT(refused(R"("d_model":null)"), HasSubstr("\"d_model\" must not be null"));
  EXPECT_THAT(refused(R"("layer_norm_epsilon":0)"), HasSubstr("\"layer_norm_epsilon\""));
}

TEST(Config, RawHoldsTheFilesKeysAndTheDefaults) {
  const ModelConfig config = llama(R"("hidden_size":64,"odd":[1],"num_attention_heads":4)");
  EXPECT_EQ(config.raw["odd"].dump(), "[1]");
  EXPECT_EQ(config.raw["hidden_size"], 64);
  EXPECT_EQ(config.raw["max_position_embeddings"], 2048);
}

TEST(Config, AnUnknownModelTypeIsLeftToTheRegistry) {
  const ModelConfig config = from_text(R"({"model_type":"rwkv","hidden_size":"many"})");
  EXPECT_EQ(config.model_type, "rwkv");
  EXPECT_EQ(config.raw["hidden_size"], "many");
  EXPECT_EQ(config.num_hidden_layers, 0);
  EXPECT_TRUE(config_defaults("rwkv").empty());
}

TEST(Config, NeedsAModelType) {
  for (const char* text : {"{}", R"({"model_type":null})", R"({"model_type":""})", R"({"model_type":7})", "[]", "7"}) {
    EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { from_text(text); }), HasSubstr("x.json"));
  }
}

TEST(Config, RefusesSizesThatAreNoSizes) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const char* value :
         {"0", "-1", "2147483648", "9223372036854775807", "18446744073709551615", "1.5", "\"8\"", "[8]", "true"}) {
      EXPECT_THAT(refusal(fmt::format(R"("{}":{})", key, value)), HasSubstr(key)) << value;
    }
  }
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers"}) {
    EXPECT_THAT(refusal(fmt::format(R"("{}":null)", key)), HasSubstr("must not be null"));
  }
  EXPECT_THAT(refusal(R"("num_hidden_layers":65537)"), HasSubstr("1 to 65536"));
  EXPECT_THAT(refusal(R"("head_dim":65538)"), HasSubstr("1 to 65536"));
}

TEST(Config, RefusesSizesThatDoNotDivide) {
  EXPECT_THAT(refusal(R"("hidden_size":65,"num_attention_heads":4)"), HasSubstr("65 by 4"));
  EXPECT_THAT(refusal(R"("num_attention_heads":32,"num_key_value_heads":5)"), HasSubstr("32 by 5"));
  EXPECT_EQ(llama(R"("hidden_size":65,"num_attention_heads":4,"head_dim":16)").head_dim, 16);
}

TEST(Config, RefusesOtherValuesOfOtherTypes) {
  for (const char* keys : {R"("rms_norm_eps":0)", R"("rms_norm_eps":-1e-6)", R"("rms_norm_eps":"small")",
                           R"("hidden_act":7)", R"("tie_word_embeddings":1)", R"("attention_bias":"no")",
                           R"("bos_token_id":"<s>")", R"("bos_token_id":2147483648)", R"("eos_token_id":[2,"</s>"])",
                           R"("eos_token_id":[-1])", R"("eos_token_id":[[2]])", R"("eos_token_id":{})",
                           R"("eos_token_id":[18446744073709551615])", R"("dtype":16)"}) {
    refusal(keys);
  }
  EXPECT_THAT(refusal(R"("torch_dtype":"int8")", ErrorKind::kUnsupported), HasSubstr("\"int8\""));
  EXPECT_EQ(llama(R"("dtype":"torch.float16")").dtype, DType::kFloat16);
  EXPECT_EQ(llama(R"("pad_token_id":-1)").pad_token_id, std::nullopt);
}

TEST(Config, RefusesRotaryParametersThatMakeNoSense) {
  for (const char* keys :
       {R"("rope_theta":0)", R"("rope_theta":-1)", R"("rope_theta":"big")", R"("rope_parameters":7)",
        R"("rope_scaling":[1])", R"("rope_scaling":{"type":"linear"})",
        R"("rope_scaling":{"type":"linear","factor":0})", R"("rope_scaling":{"type":"linear","factor":-2})",
        R"("rope_scaling":{"type":7,"factor":2})", R"("rope_scaling":{"rope_type":"llama3","factor":8})",
        R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})",
        R"("rope_scaling":{"rope_type":"default","original_max_position_embeddings":0})"}) {
    refusal(keys);
  }
  EXPECT_THAT(refusal(R"("partial_rotary_factor":1.5)"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(refusal(R"("rope_parameters":{"full_attention":{"rope_theta":0}})"), HasSubstr("rope_theta"));
  EXPECT_EQ(llama(R"("rope_scaling":{"rope_type":"yarn","factor":4})").rope.rope_type, "yarn");
}

TEST(Config, RefusesLayersThatMakeNoSense) {
  const auto qwen3 = [](const std::string& keys, ErrorKind kind = ErrorKind::kCorruptData) {
    return thrown(kind, [&] { from_text(R"({"model_type":"qwen3","num_hidden_layers":2,)" + keys + "}"); });
  };
  EXPECT_THAT(qwen3(R"("layer_types":["full_attention"])"), HasSubstr("must list 2 layers, it has 1"));
  EXPECT_THAT(qwen3(R"("layer_types":"full_attention")"), HasSubstr("layer_types"));
  EXPECT_THAT(qwen3(R"("layer_types":[1,2])"), HasSubstr("not a string"));
  EXPECT_THAT(qwen3(R"("layer_types":["conv","conv"])", ErrorKind::kUnsupported), HasSubstr("\"conv\""));
  EXPECT_THAT(qwen3(R"("layer_types":["full_attention","sliding_attention"])"), HasSubstr("no \"sliding_window\""));
  EXPECT_THAT(qwen3(R"("layer_types":["full_attention","chunked_attention"])"),
              HasSubstr("no \"attention_chunk_size\""));
  EXPECT_THAT(qwen3(R"("layer_types":["linear_attention","conv"])", ErrorKind::kUnsupported),
              HasSubstr("\"linear_attention\""));
  EXPECT_THAT(qwen3(R"("use_sliding_window":true,"sliding_window":0)"), HasSubstr("sliding_window"));
}

// What a file that lists no layer types means, by model type.
TEST(Config, LayersFollowThePatternOfTheirModelType) {
  const auto layers = [](const std::string& type, const std::string& keys) {
    const ModelConfig config = from_text(R"({"model_type":")" + type + R"(","num_hidden_layers":4)" + keys + "}");
    std::vector<std::string> names;
    for (const LayerType layer : config.layer_types) names.push_back(name_of(layer));
    return names;
  };
  const std::string full = "full_attention", sliding = "sliding_attention", chunked = "chunked_attention";
  const std::string conv = "conv", linear = "linear_attention";
  EXPECT_THAT(layers("gemma2", ""), ElementsAre(sliding, full, sliding, full));
  EXPECT_THAT(layers("gemma3_text", R"(,"sliding_window_pattern":3)"), ElementsAre(sliding, sliding, full, sliding));
  EXPECT_THAT(layers("gemma3_text", ""), ElementsAre(sliding, sliding, sliding, sliding));
  EXPECT_THAT(layers("gpt_oss", ""), ElementsAre(sliding, full, sliding, full));
  EXPECT_THAT(layers("llama4_text", ""), ElementsAre(chunked, chunked, chunked, full));
  EXPECT_THAT(layers("llama4_text", R"(,"no_rope_layers":[0,1,1,0])"), ElementsAre(full, chunked, chunked, full));
  EXPECT_THAT(layers("smollm3", ""), ElementsAre(full, full, full, full));
  EXPECT_THAT(layers("smollm3", R"(,"use_sliding_window":true,"sliding_window":8)"),
              ElementsAre(full, full, full, sliding));
  EXPECT_THAT(layers("lfm2", R"(,"full_attn_idxs":[1,3])"), ElementsAre(conv, full, conv, full));
  EXPECT_THAT(layers("lfm2", ""), ElementsAre(full, full, full, full));
  EXPECT_THAT(layers("qwen3_next", ""), ElementsAre(linear, linear, linear, full));
  for (const char* keys : {R"(,"no_rope_layers":[1,1])", R"(,"no_rope_layers":[1,1,1,"x"])"}) {
    EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { layers("llama4_text", keys); }), HasSubstr("no_rope_layers"));
  }
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { layers("lfm2", R"(,"full_attn_idxs":[4])"); }),
              HasSubstr("full_attn_idxs"));
}

TEST(Config, SlidingLayersMayRotateByAnotherBase) {
  const auto gemma3 = [](const std::string& keys) { return from_text(R"({"model_type":"gemma3_text")" + keys + "}"); };
  EXPECT_EQ(gemma3("").rope.rope_theta, 1e6);
  EXPECT_EQ(gemma3("").sliding_rope->rope_theta, 1e4);
  const ModelConfig older =
      gemma3(R"(,"rope_theta":5e5,"rope_local_base_freq":2e4,"rope_scaling":{"rope_type":"linear","factor":8})");
  EXPECT_EQ(older.rope.rope_theta, 5e5);
  EXPECT_EQ(older.rope.rope_type, "linear");
  EXPECT_EQ(older.rope.factor, 8);
  EXPECT_EQ(older.sliding_rope->rope_theta, 2e4);
  EXPECT_EQ(older.sliding_rope->rope_type, "default");
  const ModelConfig newer = gemma3(
      R"(,"rope_parameters":{"full_attention":{"rope_theta":3e6},"sliding_attention":{"rope_type":"linear","factor":2}})");
  EXPECT_EQ(newer.rope.rope_theta, 3e6);
  EXPECT_EQ(newer.sliding_rope->rope_theta, 1e4);
  EXPECT_EQ(newer.sliding_rope->factor, 2);
  EXPECT_FALSE(llama("\"rope_theta\":5e5").sliding_rope.has_value());
}

TEST(Config, RotationsOfAllKindsAreRead) {
  const RopeConfig oss = from_text(R"({"model_type":"gpt_oss"})").rope;
  EXPECT_EQ(oss.rope_type, "yarn");
  EXPECT_EQ(oss.factor, 32);
  EXPECT_EQ(oss.original_max_position_embeddings, 4096);
  EXPECT_EQ(oss.rope_theta, 150000);
  EXPECT_FALSE(oss.truncate);
  const RopeConfig phi = from_text(R"({"model_type":"phi3","max_position_embeddings":131072,"rope_scaling":
      {"type":"su","short_factor":[1,2],"long_factor":[3,4]}})")
                             .rope;
  EXPECT_EQ(phi.rope_type, "longrope");
  EXPECT_EQ(phi.factor, 32);
  EXPECT_EQ(phi.long_factor, (std::vector<double>{3, 4}));
  EXPECT_EQ(llama(R"("max_position_embeddings":64,"rope_scaling":{"type":"dynamic","factor":4})").rope.factor, 4);
  for (const char* keys : {R"("rope_scaling":{"type":"longrope","short_factor":[1]})",
                           R"("rope_scaling":{"type":"longrope","short_factor":[0],"long_factor":[1]})",
                           R"("rope_scaling":{"type":"dynamic"})", R"("rope_scaling":{"type":"yarn","beta_fast":0})"}) {
    refusal(keys);
  }
}

TEST(Config, SaysWhatIsWrongWithThePath) {
  const testing::TempFolder folder;
  const auto open = [&] { ModelConfig::from_pretrained(folder.path()); };
  EXPECT_THAT(thrown(ErrorKind::kIo, open), HasSubstr("config.json"));
  const std::string file = folder.write("weights.bin", "x");
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { ModelConfig::from_pretrained(file); }), HasSubstr(".gguf"));
  folder.write("config.json", "{\"model_type\": ");
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, open), HasSubstr("config.json: not valid JSON"));
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { ModelConfig::from_pretrained("/no/such.gguf"); }),
              HasSubstr("/no/such.gguf"));
}

TEST(Config, SurvivesRandomByteFlips) {
  const std::string original = testing::read_file(testing::test_data("models/qwen2/config.json"));
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) {
    std::string text = original;
    for (std::uint32_t flips = random() % 3 + 1; flips > 0; --flips) {
      text[random() % text.size()] = static_cast<char>(' ' + random() % 95);
    }
    try {
      const ModelConfig config = from_text(text);
      ASSERT_EQ(config.layer_types.size(), static_cast<std::size_t>(config.num_hidden_layers));
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace mneme
