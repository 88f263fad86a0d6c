#!/usr/bin/env python3
"""Make small models of further architectures, or of any that transformers knows, and what transformers answers on them
(make_goldens.py says what golden.json holds).

    pip install torch==2.13.0 transformers==5.23.0 safetensors
    python make_architectures.py OUT_DIR [--seed N] [--only granite,olmo2]       the models that the tests read
    python make_architectures.py OUT_DIR --type exaone4 --set head_dim=16 --set 'layer_types=["full_attention"]'

With --type, OUT_DIR/<name> holds a model of this type: the sizes below, changed as --set says (JSON values, or text).
Models whose state the reference pads want --no-padding.
"""
import argparse, json, sys, torch
import make_goldens as goldens, transformers as T

BASE = goldens.BASE
ROPE = dict(rope_theta=10000.0)
HEAD16 = [1.0 + 0.5 * i for i in range(8)]

def configs():
    yield "granite", T.GraniteConfig(**BASE, embedding_multiplier=1.5, attention_multiplier=0.3, residual_multiplier=0.7,
                                     logits_scaling=0.5, attention_bias=True, mlp_bias=True)
    yield "olmo2", T.Olmo2Config(**BASE)
    yield "smollm3_window8", T.SmolLM3Config(**BASE, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=8)
    yield "mixtral", T.MixtralConfig(**BASE, num_local_experts=4, num_experts_per_tok=2)
    yield "mamba2", T.Mamba2Config(vocab_size=goldens.V, hidden_size=64, num_hidden_layers=4, state_size=16, num_heads=8,
                                   head_dim=16, n_groups=2, chunk_size=16, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    yield "falcon_h1_options", T.FalconH1Config(
        **BASE, head_dim=16, mamba_d_ssm=120, mamba_n_heads=6, mamba_d_head=20, mamba_n_groups=2, mamba_d_state=12,
        mamba_d_conv=3, mamba_chunk_size=16, mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_conv_bias=False,
        projectors_bias=True, mlp_bias=True, embedding_multiplier=1.25, lm_head_multiplier=0.5, key_multiplier=0.7,
        attention_in_multiplier=0.9, attention_out_multiplier=1.1, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8,
        ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7], mlp_multipliers=[0.8, 1.3])
    yield "llama_yarn", T.LlamaConfig(**BASE, rope_parameters=dict(
        ROPE, rope_type="yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=8.0, beta_slow=1.0))
    yield "llama_dynamic", T.LlamaConfig(**{**BASE, "max_position_embeddings": 64}, rope_parameters=dict(
        ROPE, rope_type="dynamic", factor=4.0))
    yield "phi3_longrope", T.Phi3Config(**BASE, original_max_position_embeddings=64, sliding_window=100, rope_parameters=dict(
        ROPE, rope_type="longrope", partial_rotary_factor=0.5, short_factor=HEAD16[:4], long_factor=HEAD16[4:]))

    yield "deepseek_v3", T.DeepseekV3Config(
        **{**BASE, "num_key_value_heads": 4}, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16,
        v_head_dim=12, moe_intermediate_size=48, n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2,
        n_shared_experts=2, first_k_dense_replace=1, rope_parameters=dict(
            ROPE, rope_type="yarn", factor=4.0, original_max_position_embeddings=128, mscale=0.8, mscale_all_dim=0.9))
    yield "deepseek_v3_full_query", T.DeepseekV3Config(
        **{**BASE, "num_key_value_heads": 4}, q_lora_rank=None, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16,
        v_head_dim=16, moe_intermediate_size=48, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
        first_k_dense_replace=2, rope_interleave=False, attention_bias=True)
    yield "gemma4_shared", T.Gemma4TextConfig(
        **{**BASE, "num_hidden_layers": 7, "intermediate_size": 80, "tie_word_embeddings": True}, head_dim=16,
        global_head_dim=32, sliding_window=8, num_kv_shared_layers=4, use_double_wide_mlp=True,
        layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"] * 2 + ["full_attention"],
        hidden_size_per_layer_input=16, vocab_size_per_layer_input=goldens.V, final_logit_softcapping=30.0)
    yield "gemma4_experts", T.Gemma4TextConfig(
        **BASE, head_dim=16, global_head_dim=32, sliding_window=8, layer_types=["sliding_attention", "full_attention"] * 2,
        attention_k_eq_v=True, num_global_key_value_heads=1, hidden_size_per_layer_input=0, enable_moe_block=True,
        num_experts=4, top_k_experts=2, moe_intermediate_size=48)
    seq2seq = dict(vocab_size=goldens.V, d_model=64, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
                   decoder_attention_heads=2, encoder_ffn_dim=128, decoder_ffn_dim=96, max_position_embeddings=512,
                   pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None,
                   tie_word_embeddings=False, scale_embedding=True)
    yield "mbart", T.MBartConfig(**seq2seq)
    yield "marian", T.MarianConfig(**{**seq2seq, "scale_embedding": False}, activation_function="swish")

build = goldens.build

def build_with_positions(name, config, seed):
    """Positions that are computed, and left out of files, are no weights: random ones would be lost."""
    model = build(name, config, seed)
    if name == "marian":  # norms come last, as in BART: smaller weights, or every step says the same
        for key, p in model.named_parameters():
            if p.dim() >= 2 and "embed" not in key and "shared" not in key: p.data.copy_((p.data * 0.5).bfloat16().float())
    if name.startswith("gemma4"):  # what a layer ends with is a buffer, and all others of one number
        generator = torch.Generator().manual_seed(seed + 3)
        draw = lambda p, spread: p.data.copy_((1 + spread * torch.randn(p.shape, generator=generator)).bfloat16().float())
        for key, p in [*model.named_parameters(), *model.named_buffers()]:
            if "layer_scalar" in key or "router" in key and p.dim() == 1 or key.endswith("norm.weight"): draw(p, 0.1)
            if name == "gemma4_shared" and "embed_tokens.weight" in key: p.data.copy_((p.data * 0.2).bfloat16().float())
    for module in model.modules():
        if hasattr(module, "create_weight"): module.weight.data.copy_(module.create_weight())
    return model

def one(args):
    changes = {}
    for change in args.set:
        key, value = change.split("=", 1)
        try: changes[key] = json.loads(value)
        except json.JSONDecodeError: changes[key] = value
    yield args.name or args.type, T.AutoConfig.for_model(args.type, **{**BASE, **changes})

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="")
    parser.add_argument("--type", help="a model_type of transformers")
    parser.add_argument("--name", help="of the folder; the type")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the configuration")
    parser.add_argument("--no-padding", action="store_true", help="batches of equal lengths only")
    args = parser.parse_args()
    goldens.configs = (lambda: one(args)) if args.type else configs
    goldens.build = build_with_positions
    goldens.ENCODER_DECODER |= {"mbart", "marian"}
    goldens.NO_PADDING |= {"mamba2", "falcon_h1_options"}
    if args.no_padding: goldens.NO_PADDING.add(args.name or args.type)
    sys.argv = [sys.argv[0], args.out, "--seed", args.seed, "--only", args.only]
    goldens.main()

if __name__ == "__main__":
    main()
