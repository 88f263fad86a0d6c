#!/usr/bin/env python3
"""Writes a model of a real one's shape with random weights, for measurements that ask for no text.

    random_model.py qwen3-0.6b FOLDER

bfloat16 numbers of 2^-7 to 2^-5 in size and of both signs; the same bytes every time. Standard library only.
"""
import json
import os
import random
import sys

QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "rms_norm_eps": 1e-6,
         "rope_theta": 1000000.0, "tie_word_embeddings": True, "max_position_embeddings": 40960, "dtype": "bfloat16"}
SHAPES = {
    "qwen3-0.6b": QWEN3 | {"vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                           "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128},
}
CHUNK = 1 << 22


def tensors(config):
    """Name and shape of each."""
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden]
    for i in range(config["num_hidden_layers"]):
        layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden],
                 "self_attn.q_proj": [queries, hidden], "self_attn.k_proj": [keys, hidden],
                 "self_attn.v_proj": [keys, hidden], "self_attn.o_proj": [hidden, queries],
                 "self_attn.q_norm": [dim], "self_attn.k_norm": [dim],
                 "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
        for name, shape in layer.items():
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", [hidden]


def n_bytes(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


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
        for _, shape in tensors(config):
            write_numbers(file, n_bytes(shape), generator)


if __name__ == "__main__":
    main()
