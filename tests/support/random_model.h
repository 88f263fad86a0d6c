#pragma once

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/models/registry.h"
#include "tests/support/files.h"
#include "tests/support/floats.h"
#include "tests/support/safetensors_writer.h"

namespace mneme::testing {

/// A small checkpoint of random weights: a config and named float32 tensors, to be changed before it is written.
struct Checkpoint {
  struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  Json config;
  std::map<std::string, Tensor> tensors;

  void add(const std::string& name, const std::vector<std::int64_t>& shape, float deviation = 0.2f) {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    Tensor tensor{shape, random_floats(n, static_cast<unsigned>(tensors.size() + 1), deviation)};
    if (name.ends_with("norm.weight")) {
      for (float& x : tensor.values) x += 1;
    }
    tensors[name] = std::move(tensor);
  }

  /// Writes config.json and model.safetensors; gives the folder.
  std::string write(const TempFolder& folder) const {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
      header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors(header.dump(), data));
    return folder.path();
  }
};

/// 4 layers, 4 query and 2 key/value heads of 16, 512 tokens. `changes` are merged into config.json.
inline Checkpoint random_checkpoint(const std::string& model_type = "llama", const Json& changes = Json::object()) {
  Checkpoint c;
  c.config = {{"model_type", model_type}, {"vocab_size", 512},      {"hidden_size", 64},
              {"intermediate_size", 96},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
              {"num_key_value_heads", 2}, {"head_dim", 16},         {"max_position_embeddings", 4096},
              {"rms_norm_eps", 1e-6},     {"dtype", "float32"}};
  if (model_type == "mistral") c.config["sliding_window"] = nullptr;
  c.config.update(changes);
  const ModelConfig config = ModelConfig::from_json(c.config, "random");
  const std::int64_t width = config.hidden_size, queries = config.num_attention_heads * config.head_dim,
                     keys = config.num_key_value_heads * config.head_dim, inner = config.intermediate_size;
  c.add("model.embed_tokens.weight", {config.vocab_size, width}, 1.0f);
  c.add("model.norm.weight", {width});
  if (!config.tie_word_embeddings) c.add("lm_head.weight", {config.vocab_size, width});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    c.add(layer + "input_layernorm.weight", {width});
    c.add(layer + "post_attention_layernorm.weight", {width});
    c.add(layer + "self_attn.q_proj.weight", {queries, width});
    c.add(layer + "self_attn.k_proj.weight", {keys, width});
    c.add(layer + "self_attn.v_proj.weight", {keys, width});
    c.add(layer + "self_attn.o_proj.weight", {width, queries});
    c.add(layer + "mlp.gate_proj.weight", {inner, width});
    c.add(layer + "mlp.up_proj.weight", {inner, width});
    c.add(layer + "mlp.down_proj.weight", {width, inner});
    if (config.attention_bias) {
      c.add(layer + "self_attn.q_proj.bias", {queries});
      c.add(layer + "self_attn.k_proj.bias", {keys});
      c.add(layer + "self_attn.v_proj.bias", {keys});
      if (model_type != "qwen2") c.add(layer + "self_attn.o_proj.bias", {width});
    }
    if (config.mlp_bias) {
      c.add(layer + "mlp.gate_proj.bias", {inner});
      c.add(layer + "mlp.up_proj.bias", {inner});
      c.add(layer + "mlp.down_proj.bias", {width});
    }
    if (model_type == "qwen3") {
      c.add(layer + "self_attn.q_norm.weight", {config.head_dim});
      c.add(layer + "self_attn.k_norm.weight", {config.head_dim});
    }
  }
  return c;
}

/// A model of a checkpoint in a folder that lives as long.
class RandomModel {
 public:
  explicit RandomModel(const Checkpoint& checkpoint, DType dtype = DType::kFloat32)
      : weights_(Weights::open(checkpoint.write(folder_))) {
    ModelConfig config = ModelConfig::from_pretrained(folder_.path());
    if (checkpoint.config.contains("test_chunk")) {  // no architecture has chunked layers yet, the decoder has
      config.attention_chunk_size = checkpoint.config["test_chunk"].get<std::int64_t>();
      for (std::size_t i = 0; i < config.layer_types.size(); i += 2)
        config.layer_types[i] = LayerType::kChunkedAttention;
    }
    model_ = architecture_of(config.model_type).build(config, weights_, dtype, at::kCPU);
  }
  explicit RandomModel(const std::string& model_type, const Json& changes = Json::object(),
                       DType dtype = DType::kFloat32)
      : RandomModel(random_checkpoint(model_type, changes), dtype) {}

  const Model& operator*() const { return *model_; }
  const Model* operator->() const { return model_.get(); }
  const Weights& weights() const { return weights_; }

 private:
  TempFolder folder_;
  Weights weights_;
  std::unique_ptr<Model> model_;
};

/// Layers that alternate between a window of 8 and full attention.
inline const Json kAlternatingWindow = {
    {"use_sliding_window", true},
    {"sliding_window", 8},
    {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}}};
/// Layers that alternate between chunks of 8 and full attention.
inline const Json kAlternatingChunks = {{"test_chunk", 8}};

/// Small models: full attention, windows, chunks, biases and query/key norms.
inline std::vector<std::pair<std::string, Json>> random_models() {
  return {{"llama", Json::object()},
          {"llama", {{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}}},
          {"llama",
           {{"rope_parameters",
             {{"rope_type", "llama3"},
              {"rope_theta", 10000.0},
              {"factor", 8.0},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", 32}}}}},
          {"mistral", {{"sliding_window", 8}}},
          {"qwen2", kAlternatingWindow},
          {"qwen3", kAlternatingWindow},
          {"llama", kAlternatingChunks}};
}

/// Ids of a prompt, the same for the same seed.
inline std::vector<std::int64_t> random_ids(std::int64_t n, unsigned seed, std::int64_t vocabulary = 512) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(n));
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random()) % vocabulary;
  return ids;
}

}  // namespace mneme::testing
