#!/usr/bin/env python3
"""Writes a model of a real one's shape with random weights, for measurements that ask for no text.

    random_model.py qwen3-0.6b FOLDER

bfloat16 numbers of 2^-7 to 2^-5 in size and of both signs, norms of one (Qwen3-Next's, which are added to one, of none);
the same bytes every time. Standard library only.
"""
import json
import math
import os
import random
import sys

COMMON = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": False,
          "max_position_embeddings": 40960, "dtype": "bfloat16"}  # a tied head would echo what it reads
SHAPES = {
    "qwen3-0.6b": COMMON | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
        "tie_word_embeddings": True, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128},
    "mamba-130m": COMMON | {
        "architectures": ["MambaForCausalLM"], "model_type": "mamba", "vocab_size": 50280, "hidden_size": 768,
        "intermediate_size": 1536, "num_hidden_layers": 24, "state_size": 16, "conv_kernel": 4, "time_step_rank": 48,
        "layer_norm_epsilon": 1e-5},
    "mamba2-130m": COMMON | {
        "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "vocab_size": 50288, "hidden_size": 768,
        "num_hidden_layers": 24, "state_size": 128, "conv_kernel": 4, "num_heads": 24, "head_dim": 64, "n_groups": 1,
        "expand": 2, "chunk_size": 256, "layer_norm_epsilon": 1e-5},
    "lfm2-350m": COMMON | {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "vocab_size": 65536, "hidden_size": 1024,
        "intermediate_size": 4608, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8,
        "norm_eps": 1e-5, "conv_L_cache": 3, "block_auto_adjust_ff_dim": False,
        "layer_types": ["full_attention" if i in (2, 5, 8, 10, 12, 14) else "conv" for i in range(16)]},
    # The layers of the 80B model, at the width and with the number of experts that a small machine holds.
    "qwen3-next-small": COMMON | {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "vocab_size": 65536, "hidden_size": 768,
        "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 128, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 8, "linear_num_value_heads": 16, "num_experts": 16, "num_experts_per_tok": 4,
        "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "partial_rotary_factor": 0.25,
        "layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(12)]},
    "falcon-h1-0.5b": COMMON | {
        "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "vocab_size": 65536, "hidden_size": 1024,
        "intermediate_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 64, "mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_n_groups": 1,
        "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_chunk_size": 256, "mamba_rms_norm": False},
}
CHUNK = 1 << 22


def attention(c, prefix, output="o_proj", norms=("q_norm", "k_norm"), gated=False):
    hidden, dim = c["hidden_size"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    queries, keys = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    yield prefix + "q_proj.weight", [2 * queries if gated else queries, hidden]
    for name in ("k_proj", "v_proj"):
        yield f"{prefix}{name}.weight", [keys, hidden]
    yield f"{prefix}{output}.weight", [hidden, queries]
    for name in norms:
        yield f"{prefix}{name}.weight", [dim]


def feed_forward(c, prefix, names=("gate_proj", "up_proj", "down_proj"), inner=None):
    hidden, inner = c["hidden_size"], inner or c["intermediate_size"]
    gate, up, down = names
    yield f"{prefix}{gate}.weight", [inner, hidden]
    yield f"{prefix}{up}.weight", [inner, hidden]
    yield f"{prefix}{down}.weight", [hidden, inner]


def mixer2(hidden, prefix, inner, heads, groups, state, taps):
    """Mamba-2's, but for the norm at its end, which not all have."""
    mixed = inner + 2 * groups * state
    yield prefix + "in_proj.weight", [inner + mixed + heads, hidden]
    yield prefix + "conv1d.weight", [mixed, 1, taps]
    yield prefix + "conv1d.bias", [mixed]
    for name in ("A_log", "D", "dt_bias"):
        yield prefix + name, [heads]
    yield prefix + "out_proj.weight", [hidden, inner]


def qwen3_layer(c, i, prefix):
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{prefix}{name}.weight", [c["hidden_size"]]
    yield from attention(c, prefix + "self_attn.")
    yield from feed_forward(c, prefix + "mlp.")


def mamba_layer(c, i, prefix):
    hidden, inner, state, rank = c["hidden_size"], c["intermediate_size"], c["state_size"], c["time_step_rank"]
    mixer = {"in_proj.weight": [2 * inner, hidden], "conv1d.weight": [inner, 1, c["conv_kernel"]], "conv1d.bias": [inner],
             "x_proj.weight": [rank + 2 * state, inner], "dt_proj.weight": [inner, rank], "dt_proj.bias": [inner],
             "A_log": [inner, state], "D": [inner], "out_proj.weight": [hidden, inner]}
    yield prefix + "norm.weight", [hidden]
    for name, shape in mixer.items():
        yield f"{prefix}mixer.{name}", shape


def mamba2_layer(c, i, prefix):
    inner = c["num_heads"] * c["head_dim"]
    yield prefix + "norm.weight", [c["hidden_size"]]
    yield prefix + "mixer.norm.weight", [inner]
    yield from mixer2(c["hidden_size"], prefix + "mixer.", inner, c["num_heads"], c["n_groups"], c["state_size"],
                      c["conv_kernel"])


def lfm2_layer(c, i, prefix):
    hidden = c["hidden_size"]
    for name in ("operator_norm", "ffn_norm"):
        yield f"{prefix}{name}.weight", [hidden]
    if c["layer_types"][i] == "conv":
        yield prefix + "conv.in_proj.weight", [3 * hidden, hidden]
        yield prefix + "conv.conv.weight", [hidden, 1, c["conv_L_cache"]]
        yield prefix + "conv.out_proj.weight", [hidden, hidden]
    else:
        yield from attention(c, prefix + "self_attn.", "out_proj", ("q_layernorm", "k_layernorm"))
    yield from feed_forward(c, prefix + "feed_forward.", ("w1", "w3", "w2"))


def qwen3_next_layer(c, i, prefix):
    hidden, net, mlp = c["hidden_size"], prefix + "linear_attn.", prefix + "mlp."
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{prefix}{name}.weight", [hidden]
    if c["layer_types"][i] == "full_attention":
        yield from attention(c, prefix + "self_attn.", gated=True)
    else:
        heads = c["linear_num_value_heads"]
        keys, values = c["linear_num_key_heads"] * c["linear_key_head_dim"], heads * c["linear_value_head_dim"]
        yield net + "in_proj_qkvz.weight", [2 * keys + 2 * values, hidden]
        yield net + "in_proj_ba.weight", [2 * heads, hidden]
        yield net + "conv1d.weight", [2 * keys + values, 1, c["linear_conv_kernel_dim"]]
        yield net + "A_log", [heads]
        yield net + "dt_bias", [heads]
        yield net + "norm.weight", [c["linear_value_head_dim"]]
        yield net + "out_proj.weight", [hidden, values]
    yield mlp + "gate.weight", [c["num_experts"], hidden]
    for expert in range(c["num_experts"]):
        yield from feed_forward(c, f"{mlp}experts.{expert}.", inner=c["moe_intermediate_size"])
    yield from feed_forward(c, mlp + "shared_expert.", inner=c["shared_expert_intermediate_size"])
    yield mlp + "shared_expert_gate.weight", [1, hidden]


def falcon_h1_layer(c, i, prefix):
    for name in ("input_layernorm", "pre_ff_layernorm"):
        yield f"{prefix}{name}.weight", [c["hidden_size"]]
    yield from attention(c, prefix + "self_attn.", norms=())
    yield from mixer2(c["hidden_size"], prefix + "mamba.", c["mamba_d_ssm"], c["mamba_n_heads"], c["mamba_n_groups"],
                      c["mamba_d_state"], c["mamba_d_conv"])
    yield from feed_forward(c, prefix + "feed_forward.")


# model_type: the names of embedding, layers and last norm, and what gives a layer's tensors
LAYOUTS = {
    "qwen3": ("model.embed_tokens", "model.layers", "model.norm", qwen3_layer),
    "mamba": ("backbone.embeddings", "backbone.layers", "backbone.norm_f", mamba_layer),
    "mamba2": ("backbone.embeddings", "backbone.layers", "backbone.norm_f", mamba2_layer),
    "lfm2": ("model.embed_tokens", "model.layers", "model.embedding_norm", lfm2_layer),
    "qwen3_next": ("model.embed_tokens", "model.layers", "model.norm", qwen3_next_layer),
    "falcon_h1": ("model.embed_tokens", "model.layers", "model.final_layernorm", falcon_h1_layer),
}


def tensors(config):
    """Name and shape of each."""
    embedding, layers, norm, layer = LAYOUTS[config["model_type"]]
    yield embedding + ".weight", [config["vocab_size"], config["hidden_size"]]
    for i in range(config["num_hidden_layers"]):
        yield from layer(config, i, f"{layers}.{i}.")
    yield norm + ".weight", [config["hidden_size"]]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [config["vocab_size"], config["hidden_size"]]


def n_bytes(shape):
    return 2 * math.prod(shape)


def write_numbers(file, n, generator):
    """n bytes of numbers whose sign and mantissa are random, and their exponent's last bit."""
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        kept = int.from_bytes(b"\xff\x80" * (size // 2), "big") & int.from_bytes(generator.randbytes(size), "big")
        file.write((kept | int.from_bytes(b"\x00\x3c" * (size // 2), "big")).to_bytes(size, "big"))


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(f"usage: random_model.py {'|'.join(SHAPES)} FOLDER")
    config, folder = SHAPES[sys.argv[1]], sys.argv[2]
    header, offset = {}, 0
    for name, shape in tensors(config):
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + n_bytes(shape)]}
        offset += n_bytes(shape)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = random.Random(1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors(config):
            if "norm" in name:
                added_to_one = config["model_type"] == "qwen3_next" and "linear_attn" not in name
                file.write((b"\0\0" if added_to_one else b"\x80\x3f") * math.prod(shape))
            else:
                write_numbers(file, n_bytes(shape), generator)


if __name__ == "__main__":
    main()
