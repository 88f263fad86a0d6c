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
  },
  "bart": {
    "d_model": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096, "encoder_attention_heads": 16,
    "decoder_layers": 12, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16, "activation_function": "gelu",
    "max_position_embeddings": 1024, "scale_embedding": false, "tie_word_embeddings": true,
    "learned_positions": true, "vocab_size": 50265, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1
  },
  "whisper": {
    "d_model": 384, "encoder_layers": 4, "encoder_ffn_dim": 1536, "encoder_attention_heads": 6,
    "decoder_layers": 4, "decoder_ffn_dim": 1536, "decoder_attention_heads": 6, "activation_function": "gelu",
    "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448, "scale_embedding": false,
    "tie_word_embeddings": true, "learned_positions": true, "vocab_size": 51865, "decoder_start_token_id": 50257,
    "bos_token_id": 50256, "eos_token_id": 50256, "pad_token_id": 50256
  },
  "marian": {
    "d_model": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096, "encoder_attention_heads": 16,
    "decoder_layers": 12, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16, "activation_function": "gelu",
    "max_position_embeddings": 1024, "scale_embedding": false, "tie_word_embeddings": true,
    "learned_positions": true, "vocab_size": 58101, "share_encoder_decoder_embeddings": true, "bos_token_id": null,
    "eos_token_id": 0, "pad_token_id": 58100
  },
  "mbart": {
    "d_model": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096, "encoder_attention_heads": 16,
    "decoder_layers": 12, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16, "activation_function": "gelu",
    "max_position_embeddings": 1024, "scale_embedding": false, "tie_word_embeddings": true,
    "learned_positions": true, "vocab_size": 50265, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1
  },
  "deepseek_v3": {
    "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": null, "n_shared_experts": 1,
    "n_routed_experts": 256, "routed_scaling_factor": 2.5, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "n_group": 8, "topk_group": 4,
    "num_experts_per_tok": 8, "first_k_dense_replace": 3, "norm_topk_prob": true, "hidden_act": "silu",
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "rope_interleave": true,
    "attention_bias": false, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": null
  },
  "gemma2": {
    "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "attention_bias": false, "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
    "sliding_window_pattern": 2, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
    "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0
  },
  "gemma3_text": {
    "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "attention_bias": false, "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
    "sliding_window_pattern": 6, "final_logit_softcapping": null, "attn_logit_softcapping": null,
    "rope_theta": 1e6, "rope_local_base_freq": 1e4, "use_bidirectional_attention": false,
    "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0
  },
  "gemma4_text": {
    "vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512,
    "num_global_key_value_heads": null, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true, "attention_bias": false,
    "sliding_window": 512, "layer_types": null, "sliding_window_pattern": 6, "final_logit_softcapping": null,
    "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
      "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
    },
    "use_bidirectional_attention": null, "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256,
    "last_layer_is_full": true, "attention_k_eq_v": false, "num_kv_shared_layers": 0, "enable_moe_block": false,
    "use_double_wide_mlp": false, "num_experts": null, "top_k_experts": null, "moe_intermediate_size": null,
    "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0
  },
  "phi3": {
    "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null, "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "tie_word_embeddings": false, "sliding_window": null, "bos_token_id": 1, "eos_token_id": 32000,
    "pad_token_id": 32000
  },
  "gpt2": {
    "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": null,
    "expand": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "learned_positions": true,
    "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false, "tie_word_embeddings": true,
    "bos_token_id": 50256, "eos_token_id": 50256, "pad_token_id": null
  },
  "olmo2": {
    "vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "bos_token_id": null, "eos_token_id": 50279, "pad_token_id": 1
  },
  "granite": {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "mlp_bias": false, "embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0,
    "attention_multiplier": 1.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": null
  },
  "smollm3": {
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
    "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": null, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": true, "attention_bias": false,
    "mlp_bias": false, "use_sliding_window": false, "sliding_window": null, "no_rope_layers": null,
    "no_rope_layer_interval": 4, "layer_types": null, "rope_theta": 2e6, "bos_token_id": 128000,
    "eos_token_id": 128001, "pad_token_id": 128004
  },
  "mixtral": {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false, "sliding_window": null,
    "num_experts_per_tok": 2, "num_local_experts": 8, "rope_theta": 1e6, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": null
  },
  "qwen3_moe": {
    "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": null, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "use_sliding_window": false, "sliding_window": null, "decoder_sparse_step": 1, "moe_intermediate_size": 768,
    "num_experts_per_tok": 8, "num_local_experts": 128, "num_experts": null, "norm_topk_prob": false,
    "mlp_only_layers": [], "bos_token_id": null, "eos_token_id": null, "pad_token_id": null
  },
  "llama4_text": {
    "vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false,
    "attention_bias": false, "num_experts_per_tok": 1, "num_local_experts": 16, "moe_layers": null,
    "interleave_moe_layer_step": 1, "use_qk_norm": true, "no_rope_layers": null, "no_rope_layer_interval": 4,
    "attention_chunk_size": 8192, "layer_types": null, "attn_temperature_tuning": true, "floor_scale": 8192,
    "attn_scale": 0.1, "rope_theta": 5e5, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": null
  },
  "gpt_oss": {
    "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": true,
    "sliding_window": 128, "sliding_window_pattern": 2, "layer_types": null, "num_local_experts": 128,
    "num_experts": null, "num_experts_per_tok": 4, "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "rope_theta": 1.5e5,
    "rope_parameters": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
                        "original_max_position_embeddings": 4096},
    "bos_token_id": null, "eos_token_id": null, "pad_token_id": null
  },
  "lfm2": {
    "vocab_size": 65536, "hidden_size": 2560, "intermediate_size": 12288, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null, "max_position_embeddings": 128000,
    "norm_eps": 1e-5, "tie_word_embeddings": true, "conv_bias": false, "conv_L_cache": 3,
    "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true,
    "full_attn_idxs": null, "layer_types": null, "rope_theta": 1e6, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0
  },
  "qwen3_next": {
    "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "decoder_sparse_step": 1,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts_per_tok": 10,
    "num_experts": 512, "norm_topk_prob": true, "mlp_only_layers": [], "full_attention_interval": 4,
    "layer_types": null, "partial_rotary_factor": 0.25, "bos_token_id": null, "eos_token_id": null,
    "pad_token_id": null
  },
  "falcon_h1": {
    "vocab_size": 128000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false, "attention_bias": false,
    "mlp_bias": false, "mamba_d_ssm": 1024, "mamba_n_heads": 128, "mamba_d_head": 8, "mamba_n_groups": 1,
    "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_conv_bias": true, "mamba_proj_bias": false,
    "mamba_norm_before_gate": true, "mamba_rms_norm": false, "projectors_bias": false, "time_step_limit": null,
    "lm_head_multiplier": 1.0, "embedding_multiplier": 1.0, "mlp_multipliers": [1.0, 1.0], "key_multiplier": 1.0,
    "attention_out_multiplier": 1.0, "attention_in_multiplier": 1.0,
    "ssm_multipliers": [1.0, 1.0, 1.0, 1.0, 1.0], "ssm_in_multiplier": 1.0, "ssm_out_multiplier": 1.0,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0
  },
  "mamba2": {
    "vocab_size": 32768, "hidden_size": 4096, "expand": 2, "num_hidden_layers": 64, "num_heads": 128,
    "head_dim": 64, "state_size": 128, "n_groups": 8, "conv_kernel": 4, "use_bias": false, "use_conv_bias": true,
    "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false, "time_step_limit": null,
    "max_position_embeddings": 2147483647, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1
  }
})";

// Layers are those that have a cache: the decoder's.
constexpr std::string_view kAliases = R"({
  "t5": {
    "hidden_size": ["d_model"], "intermediate_size": ["d_ff"], "num_attention_heads": ["num_heads"],
    "head_dim": ["d_kv"], "num_hidden_layers": ["num_decoder_layers", "num_layers"],
    "rms_norm_eps": ["layer_norm_epsilon"]
  },
  "gpt2": {
    "hidden_size": ["n_embd"], "intermediate_size": ["n_inner"], "num_attention_heads": ["n_head"],
    "num_hidden_layers": ["n_layer"], "max_position_embeddings": ["n_positions"],
    "rms_norm_eps": ["layer_norm_epsilon"], "hidden_act": ["activation_function"]
  },
  "bart": {
    "hidden_size": ["d_model"], "intermediate_size": ["decoder_ffn_dim"], "num_hidden_layers": ["decoder_layers"],
    "num_attention_heads": ["decoder_attention_heads"], "hidden_act": ["activation_function"]
  },
  "marian": {
    "hidden_size": ["d_model"], "intermediate_size": ["decoder_ffn_dim"], "num_hidden_layers": ["decoder_layers"],
    "num_attention_heads": ["decoder_attention_heads"], "hidden_act": ["activation_function"]
  },
  "mbart": {
    "hidden_size": ["d_model"], "intermediate_size": ["decoder_ffn_dim"], "num_hidden_layers": ["decoder_layers"],
    "num_attention_heads": ["decoder_attention_heads"], "hidden_act": ["activation_function"]
  },
  "whisper": {
    "hidden_size": ["d_model"], "intermediate_size": ["decoder_ffn_dim"], "num_hidden_layers": ["decoder_layers"],
    "num_attention_heads": ["decoder_attention_heads"], "hidden_act": ["activation_function"],
    "max_position_embeddings": ["max_target_positions"]
  },
  "deepseek_v3": {"head_dim": ["qk_rope_head_dim"]},
  "gemma2": {"hidden_act": ["hidden_activation"]},
  "gemma3_text": {"hidden_act": ["hidden_activation"]},
  "gemma4_text": {"hidden_act": ["hidden_activation"]},
  "lfm2": {"rms_norm_eps": ["norm_eps"]},
  "mamba2": {"rms_norm_eps": ["layer_norm_epsilon"]}
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
