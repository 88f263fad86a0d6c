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
  },
  "mamba": {
    "vocab_size": 50280, "hidden_size": 768, "intermediate_size": null, "expand": 2, "num_hidden_layers": 32,
    "state_size": 16, "conv_kernel": 4, "time_step_rank": "auto", "use_bias": false, "use_conv_bias": true,
    "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true,
    "max_position_embeddings": 2147483647, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0
  },
  "t5": {
    "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_decoder_layers": null,
    "num_heads": 8, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "tie_word_embeddings": true,
    "max_position_embeddings": 2147483647, "bos_token_id": null, "eos_token_id": 1, "pad_token_id": 0
  }
})";

// Layers are those that have a cache: the decoder's.
constexpr std::string_view kAliases = R"({
  "t5": {
    "hidden_size": ["d_model"], "intermediate_size": ["d_ff"], "num_attention_heads": ["num_heads"],
    "head_dim": ["d_kv"], "num_hidden_layers": ["num_decoder_layers", "num_layers"],
    "rms_norm_eps": ["layer_norm_epsilon"]
  }
})";

const Json& row_of(const Json& rows, std::string_view model_type) {
  static const Json none = Json::object();
  const auto row = rows.find(std::string(model_type));
  return row == rows.end() ? none : *row;
}

}  // namespace

const Json& config_defaults(std::string_view model_type) {
  static const Json rows = parse_json(kRows, "the table of configuration defaults");
  return row_of(rows, model_type);
}

const Json& config_aliases(std::string_view model_type) {
  static const Json rows = parse_json(kAliases, "the table of configuration aliases");
  return row_of(rows, model_type);
}

}  // namespace mneme
