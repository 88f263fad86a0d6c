#include "mneme/models/config_defaults.h"

#include <map>
#include <string>

namespace mneme {
namespace {

constexpr std::string_view kRows = R"({
  "llama": {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": null
  },
  "mistral": {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "sliding_window": 4096,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": null
  },
  "qwen2": {
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": null, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": true,
    "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28, "layer_types": null,
    "bos_token_id": null, "eos_token_id": null, "pad_token_id": null
  },
  "qwen3": {
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28, "layer_types": null,
    "bos_token_id": null, "eos_token_id": null, "pad_token_id": null
  }
})";

}  // namespace

const Json& config_defaults(std::string_view model_type) {
  static const Json rows = parse_json(kRows, "the table of configuration defaults");
  static const Json none = Json::object();
  const auto row = rows.find(std::string(model_type));
  return row == rows.end() ? none : *row;
}

}  // namespace mneme
