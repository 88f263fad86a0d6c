#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/base/json.h"
#include "mneme/models/layer_type.h"
#include "mneme/models/rope_config.h"

namespace mneme {

/// The part of config.json that every decoder shares; members carry the file's keys, or the usual ones where a model
/// type has its own (config_aliases). Layers and heads of an encoder-decoder are the decoder's. What only one
/// architecture knows is read by that architecture from `raw`.
struct ModelConfig {
  std::string name;         ///< folder or file that it came from, for messages
  std::string fingerprint;  ///< of a loaded model: what its caches are known by (load_model); else empty
  std::string model_type;   ///< "llama", "mistral", ... : the row of the registry
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;  ///< INT32_MAX for types whose positions have no limit
  double rms_norm_eps = 1e-6;
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;  ///< qwen2: queries, keys and values only
  bool mlp_bias = false;
  std::optional<std::int64_t> sliding_window;        ///< set only if at least one layer slides
  std::optional<std::int64_t> attention_chunk_size;  ///< set only if at least one layer is chunked
  std::vector<LayerType> layer_types;                ///< [num_hidden_layers]; empty for a type without attention
  RopeConfig rope;
  std::optional<RopeConfig> sliding_rope;        ///< of sliding layers, where it is another
  std::int64_t hidden_size_per_layer_input = 0;  ///< of embeddings that each layer has of its own, or 0: Gemma 4
  bool learned_positions = false;  ///< a table of max_position_embeddings vectors: no position is behind it
  std::optional<std::int64_t> bos_token_id, pad_token_id;
  std::vector<std::int64_t> eos_token_id;
  DType dtype = DType::kFloat32;  ///< as the checkpoint says ("dtype" or "torch_dtype"); GGUF: bfloat16
  Json raw;                       ///< the file's keys, and the defaults of its model type for those that it leaves out

  /// Reads `path`/config.json, or the metadata of a .gguf file (whose keys become those of config.json).
  /// Throws Error(kIo) if the file is missing, else what `from_json` throws.
  static ModelConfig from_pretrained(const std::string& path);

  /// From parsed config.json text. Keys that are left out take the values of transformers' configuration classes. For a
  /// model type without defaults of its own only name, model_type and raw are set: the registry refuses it.
  /// Throws Error(kCorruptData) with file, key and value: no model_type, wrong types, sizes that are not positive or do
  /// not divide (hidden size by heads, heads by key/value heads), more than 2^31 of anything or 65,536 layers.
  /// Throws Error(kUnsupported) for another dtype, layer type or rotary layout than this header knows.
  static ModelConfig from_json(const Json& json, const std::string& name);
};

}  // namespace mneme
