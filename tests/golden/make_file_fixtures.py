#!/usr/bin/env python3
"""Make the small model files of tests/golden/files/ and what the Python libraries read from them.

    pip install torch==2.13.0 transformers==5.23.0 safetensors==0.8.0 gguf==0.19.0 numpy
    python make_file_fixtures.py OUT_DIR

formats.gguf, formats.safetensors        one tensor of each storage; hand-made bits: every fp8 value, float16 subnormals,
                                         infinities and NaN, random blocks of Q4_0 .. Q6_K, and of Q2_K
formats_expected.safetensors             the same in float32, as gguf-py and torch decode them
llama.gguf, qwen2.gguf, qwen3.gguf       tiny models in the layout of llama.cpp (Llama's queries and keys permuted)
NAME_expected.safetensors                their tensors under the names and in the order of the checkpoint, float32
llama3_freqs.gguf                        Llama 3's rotary factors as converters write them (no weights but the embedding)
configs.json                             [{config: what config.json holds, expected: what the configuration class makes}]
"""
import json, math, os, sys
import gguf, numpy as np, torch, transformers as T
from gguf import GGMLQuantizationType as Q
from gguf.quants import dequantize
from safetensors.torch import save_file

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
rng = np.random.default_rng(0)
path = lambda name: os.path.join(out, name)

def blocks(rows, columns, n_bytes, n_halves):
    """Random quants behind float16 scales of every size: subnormal, small, large."""
    b = rng.integers(0, 256, (rows, columns // 32, n_bytes), dtype=np.uint8)
    halves = rng.standard_normal((rows, columns // 32, n_halves)) * 10.0 ** rng.integers(-8, 4, (rows, columns // 32, 1))
    b[:, :, :2 * n_halves] = halves.astype(np.float16).view(np.uint8).reshape(rows, columns // 32, 2 * n_halves)
    return b.reshape(rows, -1)

def k_blocks(rows, columns, n_bytes, scales):
    """The same for blocks of 256; scales: where their float16 numbers lie."""
    b = np.random.default_rng(n_bytes).integers(0, 256, (rows, columns // 256, n_bytes), dtype=np.uint8)
    for at in scales:
        halves = np.random.default_rng(at).standard_normal((rows, columns // 256, 1)).astype(np.float16)
        b[:, :, at:at + 2] = halves.view(np.uint8).reshape(rows, columns // 256, 2)
    return b.reshape(rows, -1)

def formats():
    halves = np.concatenate([np.arange(0, 65536, 257), [1, 2, 0x3ff, 0x400, 0x7bff, 0x7c00, 0xfc00, 0x7e00]]).astype(np.uint16)
    halves = halves.reshape(3, -1)
    expected = {}
    w = gguf.GGUFWriter(path("formats.gguf"), "llama")
    for name, kind, data in [("f32", Q.F32, rng.standard_normal((3, 5)).astype(np.float32)),
                             ("f16", Q.F16, halves.view(np.float16)), ("bf16", Q.BF16, halves.view(np.uint8)),
                             ("q4_0", Q.Q4_0, blocks(3, 96, 18, 1)), ("q4_1", Q.Q4_1, blocks(3, 96, 20, 2)),
                             ("q8_0", Q.Q8_0, blocks(3, 96, 34, 1)), ("q5_0", Q.Q5_0, blocks(3, 96, 22, 1)),
                             ("q5_1", Q.Q5_1, k_blocks(3, 3 * 256, 24, [0, 2])[:, :3 * 24]),
                             ("q4_k", Q.Q4_K, k_blocks(3, 512, 144, [0, 2])), ("q5_k", Q.Q5_K, k_blocks(3, 512, 176, [0, 2])),
                             ("q6_k", Q.Q6_K, k_blocks(3, 512, 210, [208])), ("q2_k", Q.Q2_K, k_blocks(3, 512, 84, [80, 82]))]:
        w.add_tensor(name, data, raw_dtype=None if kind in (Q.F32, Q.F16) else kind)
        value = data.astype(np.float32) if kind in (Q.F32, Q.F16) else dequantize(data, kind)
        if kind != Q.Q2_K: expected["gguf." + name] = torch.from_numpy(np.ascontiguousarray(value))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

    every = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    half = torch.from_numpy(halves.view(np.int16).copy())
    tensors = {"f32": torch.randn(3, 5, generator=torch.Generator().manual_seed(0)), "f16": half.view(torch.float16),
               "bf16": half.view(torch.bfloat16).clone(), "e4m3": every.view(torch.float8_e4m3fn).clone(), "e5m2": every.view(torch.float8_e5m2),
               "scaled.weight": every.view(torch.float8_e4m3fn).clone(), "scaled.weight_scale": torch.tensor(0.0123),
               "inverse.weight": every.view(torch.float8_e5m2).clone(),
               "inverse.weight_scale_inv": torch.tensor([0.5], dtype=torch.bfloat16), "i64": torch.arange(4)}
    save_file(tensors, path("formats.safetensors"), metadata={"format": "pt", "note": "é"})
    for name, t in tensors.items():
        if "scale" not in name.rsplit(".")[-1] and name != "i64": expected["safetensors." + name] = t.float()
    expected["safetensors.scaled.weight"] *= tensors["scaled.weight_scale"]
    expected["safetensors.inverse.weight"] *= tensors["inverse.weight_scale_inv"].float()
    save_file(expected, path("formats_expected.safetensors"))

E, F, H, KV, D, V = 16, 24, 4, 2, 4, 32  # hidden, feed-forward, heads, key/value heads, head size, vocabulary

def permuted(w, heads):
    """From halves to pairs: what llama.cpp does to the rows of Llama's queries and keys."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

def model(architecture):
    r = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    w = gguf.GGUFWriter(path(architecture + ".gguf"), architecture)
    w.add_block_count(1); w.add_context_length(128); w.add_embedding_length(E); w.add_feed_forward_length(F)
    w.add_head_count(H); w.add_head_count_kv(KV); w.add_layer_norm_rms_eps(1e-5); w.add_rope_freq_base(5e5)
    d = D if architecture != "qwen3" else 8
    if architecture == "qwen3": w.add_key_length(d); w.add_value_length(d)
    else: w.add_rope_dimension_count(d)
    w.add_bos_token_id(1); w.add_eos_token_id(2); w.add_pad_token_id(0); w.add_eot_token_id(5)
    w.add_token_list([f"t{i}" for i in range(V)])
    if architecture == "llama": w.add_sliding_window(8)
    tensors = {"token_embd.weight": ("model.embed_tokens.weight", r(V, E)), "output_norm.weight": ("model.norm.weight", r(E))}
    if architecture != "qwen3": tensors["output.weight"] = ("lm_head.weight", r(V, E))
    layer = {"attn_norm": ("input_layernorm", r(E)), "ffn_norm": ("post_attention_layernorm", r(E)),
             "attn_q": ("self_attn.q_proj", r(H * d, E)), "attn_k": ("self_attn.k_proj", r(KV * d, E)),
             "attn_v": ("self_attn.v_proj", r(KV * d, E)), "attn_output": ("self_attn.o_proj", r(E, H * d)),
             "ffn_gate": ("mlp.gate_proj", r(F, E)), "ffn_up": ("mlp.up_proj", r(F, E)), "ffn_down": ("mlp.down_proj", r(E, F))}
    if architecture == "qwen3": layer |= {"attn_q_norm": ("self_attn.q_norm", r(d)), "attn_k_norm": ("self_attn.k_norm", r(d))}
    for stem, (name, value) in layer.items(): tensors[f"blk.0.{stem}.weight"] = (f"model.layers.0.{name}.weight", value)
    if architecture != "qwen3":
        for stem, n in [("attn_q", H * d), ("attn_k", KV * d), ("attn_v", KV * d)]:
            tensors[f"blk.0.{stem}.bias"] = (f"model.layers.0.{layer[stem][0]}.bias", r(n))
    for key, (_, value) in tensors.items():
        heads = {"blk.0.attn_q": H, "blk.0.attn_k": KV}.get(key.rsplit(".", 1)[0])
        w.add_tensor(key, np.ascontiguousarray(permuted(value, heads) if heads and architecture == "llama" else value))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    save_file({name: torch.from_numpy(value) for name, value in tensors.values()}, path(architecture + "_expected.safetensors"))

def llama3_freqs():
    w = gguf.GGUFWriter(path("llama3_freqs.gguf"), "llama")
    w.add_block_count(1); w.add_context_length(131072); w.add_embedding_length(128); w.add_feed_forward_length(F)
    w.add_head_count(2); w.add_layer_norm_rms_eps(1e-5); w.add_rope_freq_base(5e5); w.add_rope_dimension_count(64)
    config = T.LlamaConfig(hidden_size=128, num_attention_heads=2, rope_parameters=dict(
        rope_type="llama3", rope_theta=5e5, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192))
    scaled, _ = T.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 1.0 / 5e5 ** (torch.arange(0, 64, 2, dtype=torch.float32) / 64)
    w.add_tensor("rope_freqs.weight", (plain / scaled).numpy())
    w.add_tensor("token_embd.weight", np.zeros((1, 1), np.float32))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def configs():
    llama3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    cases = [dict(model_type=m) for m in ("llama", "mistral", "qwen2", "qwen3")]
    llama = dict(model_type="llama", hidden_size=64, num_attention_heads=4, num_hidden_layers=3)
    cases += [
        llama, {**llama, "head_dim": 32, "num_key_value_heads": 2}, {**llama, "num_key_value_heads": None, "head_dim": None},
        {**llama, "sliding_window": 8}, {**llama, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
        {**llama, "rope_theta": 500000.0, "torch_dtype": "bfloat16", "rope_scaling": {"rope_type": "llama3", **llama3}},
        {**llama, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 1e6, "torch_dtype": "float16"},
        {**llama, "rope_scaling": None, "rope_theta": 250000},
        {**llama, "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **{k: v for k, v in llama3.items() if k[0] != "o"}}},
        {**llama, "rope_parameters": {"rope_theta": 7e4}, "dtype": "bfloat16", "torch_dtype": "float16"},
        {**llama, "eos_token_id": [128001, 128009], "bos_token_id": 128000, "pad_token_id": 128004},
        {**llama, "eos_token_id": None, "bos_token_id": None}, {**llama, "tie_word_embeddings": True, "rms_norm_eps": 1e-5},
        dict(model_type="mistral", num_hidden_layers=2, sliding_window=None),
        dict(model_type="mistral", num_hidden_layers=2, sliding_window=16, head_dim=160, rope_theta=1e6),
        dict(model_type="qwen2", num_hidden_layers=4, use_sliding_window=True, max_window_layers=2, sliding_window=16),
        dict(model_type="qwen2", num_hidden_layers=4, use_sliding_window=True, sliding_window=16),
        dict(model_type="qwen2", num_hidden_layers=4, use_sliding_window=False, max_window_layers=2, sliding_window=16),
        dict(model_type="qwen3", num_hidden_layers=2, use_sliding_window=True, sliding_window=16,
             layer_types=["sliding_attention", "full_attention"]),
        dict(model_type="qwen3", hidden_size=64, num_attention_heads=4, num_key_value_heads=2, attention_bias=True),
    ]
    results = []
    for case in cases:
        c = T.AutoConfig.for_model(**json.loads(json.dumps(case)))
        get = lambda key, default=None: getattr(c, key, default)
        layers = get("layer_types") or ["sliding_attention" if case["model_type"] == "mistral" and c.sliding_window else "full_attention"] * c.num_hidden_layers
        e = {k: get(k) for k in ("vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
             "max_position_embeddings rms_norm_eps hidden_act tie_word_embeddings bos_token_id pad_token_id").split()}
        e |= dict(head_dim=get("head_dim") or c.hidden_size // c.num_attention_heads, mlp_bias=get("mlp_bias", False),
                  attention_bias=True if case["model_type"] == "qwen2" else get("attention_bias", False), layer_types=layers,
                  sliding_window=c.sliding_window if "sliding_attention" in layers else None, rope_parameters=c.rope_parameters,
                  eos_token_id=c.eos_token_id if isinstance(c.eos_token_id, list) else [] if c.eos_token_id is None else [c.eos_token_id],
                  dtype=str(c.dtype or "torch.float32").split(".")[-1])
        results.append(dict(config=case, expected=e))
    with open(path("configs.json"), "w") as f: f.write("[\n" + ",\n".join(json.dumps(r) for r in results) + "\n]\n")

formats()
for name in ("llama", "qwen2", "qwen3"): model(name)
llama3_freqs()
configs()
