#!/usr/bin/env python3
"""Make small GGUF models of tests/golden/gguf/, as llama.cpp's converter lays them out, and what transformers answers.

    pip install torch==2.13.0 transformers==5.23.0 safetensors==0.8.0 gguf==0.19.0 numpy
    python make_gguf.py OUT_DIR [--only lfm2] [--seed N]       NAME.gguf and NAME.json
    python make_gguf.py OUT.gguf --model FOLDER [--f32]        one file of a model that save_pretrained wrote

NAME.json: [{input_ids, sequences: greedy, prompt included, last_logits: after the prompt}], in float32. Names of
tensors and of metadata are gguf-py's. Matrices are bfloat16, vectors float32, gpt-oss's experts MXFP4.
"""
import argparse, json, os, re, sys, tempfile
import gguf, numpy as np, torch, transformers as T
from gguf import GGMLQuantizationType as Q
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file
import make_goldens as goldens

V = 128
BASE = dict(vocab_size=V, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=24.0, beta_slow=1.5, truncate=False,
            original_max_position_embeddings=16)
LONG = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5, short_factor=[1.0, 1.5, 2.0, 2.5],
            long_factor=[3.0, 3.5, 4.0, 4.5])

def configs():
    head = dict(BASE, head_dim=16)
    yield "llama", T.LlamaConfig(**BASE, rope_parameters=LLAMA3)
    yield "mistral", T.MistralConfig(**head, sliding_window=8)
    yield "qwen2", T.Qwen2Config(**BASE)
    yield "qwen3", T.Qwen3Config(**dict(head, tie_word_embeddings=True))
    yield "qwen3moe", T.Qwen3MoeConfig(**head, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2,
                                       norm_topk_prob=True)
    yield "gemma2", T.Gemma2Config(**dict(head, tie_word_embeddings=True), sliding_window=8, query_pre_attn_scalar=16)
    yield "gemma3", T.Gemma3TextConfig(
        **dict(head, num_hidden_layers=6, intermediate_size=32, tie_word_embeddings=True), sliding_window=8,
        query_pre_attn_scalar=16, rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
            sliding_attention=dict(rope_type="default", rope_theta=1e4)))
    yield "phi3", T.Phi3Config(**BASE, original_max_position_embeddings=32, sliding_window=30, rope_parameters=LONG)
    yield "gpt-oss", T.GptOssConfig(**dict(head, intermediate_size=32), sliding_window=8, num_local_experts=4,
                                    num_experts_per_tok=2, rope_parameters=YARN)
    yield "mamba", T.MambaConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=8, bos_token_id=1,
                                 eos_token_id=2, pad_token_id=0)
    yield "lfm2", T.Lfm2Config(**dict(BASE, num_hidden_layers=3, intermediate_size=96, tie_word_embeddings=True),
                               layer_types=["conv", "full_attention", "conv"], block_multiple_of=16, conv_L_cache=3)

ARCH = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
        "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "gpt_oss": "gpt-oss", "mamba": "mamba",
        "lfm2": "lfm2"}

def metadata(w, c, arch):
    get = lambda key, default=None: getattr(c, key, default)
    w.add_block_count(c.num_hidden_layers); w.add_embedding_length(c.hidden_size); w.add_vocab_size(c.vocab_size)
    w.add_tokenizer_model("none")
    w.add_layer_norm_rms_eps(next(e for e in map(get, ["rms_norm_eps", "norm_eps", "layer_norm_epsilon"]) if e))
    if arch == "mamba":
        w.add_context_length(2 ** 20); w.add_feed_forward_length(0); w.add_head_count(0)
        w.add_ssm_conv_kernel(c.conv_kernel); w.add_ssm_inner_size(c.intermediate_size)
        w.add_ssm_state_size(c.state_size); w.add_ssm_time_step_rank(int(c.time_step_rank)); w.add_ssm_dt_b_c_rms(False)
        return
    head = get("head_dim") or c.hidden_size // c.num_attention_heads
    w.add_context_length(c.max_position_embeddings); w.add_head_count(c.num_attention_heads)
    if arch == "lfm2":
        w.add_head_count_kv([c.num_key_value_heads if kind == "full_attention" else 0 for kind in c.layer_types])
        w.add_shortconv_l_cache(c.conv_L_cache)
    else: w.add_head_count_kv(c.num_key_value_heads)
    inner = c.intermediate_size
    if get("block_auto_adjust_ff_dim"):
        inner = int(c.block_ffn_dim_multiplier * int(2 * inner / 3))
        inner = c.block_multiple_of * -(-inner // c.block_multiple_of)
    w.add_feed_forward_length(inner)
    if get("head_dim"): w.add_key_length(head); w.add_value_length(head)
    if get("num_local_experts") or get("num_experts"):
        w.add_expert_count(get("num_local_experts") or c.num_experts); w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(get("moe_intermediate_size") or c.intermediate_size)
    if get("sliding_window"): w.add_sliding_window(c.sliding_window)
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if get(key): getattr(w, "add_" + key)(get(key))
    rope = c.rope_parameters.get("full_attention", c.rope_parameters)
    w.add_rope_freq_base(rope["rope_theta"])
    if arch in ("llama", "phi3"): w.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1)))
    if rope["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR); w.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN); w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"]); w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if rope["rope_type"] == "longrope":
        original = c.original_max_position_embeddings
        w.add_rope_scaling_orig_ctx_len(original)
        w.add_rope_scaling_attn_factors(
            float(np.sqrt(1 + np.log(c.max_position_embeddings / original) / np.log(original))))

def rope_tensors(c):
    """Factors that converters write beside the weights."""
    rope = getattr(c, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        for key in ("long", "short"): yield f"rope_factors_{key}.weight", torch.tensor(rope[key + "_factor"])
    if rope.get("rope_type") == "llama3":
        scaled, _ = T.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](c, "cpu")
        d = c.hidden_size // c.num_attention_heads
        yield "rope_freqs.weight", 1.0 / rope["rope_theta"] ** (torch.arange(0, d, 2, dtype=torch.float32) / d) / scaled

def by_halves(t, heads):
    """From halves to pairs: what llama.cpp does to the rows of Llama's queries and keys."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)

def laid_out(tensors, c, arch):
    """A checkpoint's tensors as the converter lays them out, by names that gguf-py's table knows."""
    stacks = {}
    for name, t in tensors.items():
        if name == "lm_head.weight" and c.tie_word_embeddings: continue
        if arch == "llama" and ".q_proj." in name: t = by_halves(t, c.num_attention_heads)
        if arch == "llama" and ".k_proj." in name: t = by_halves(t, c.num_key_value_heads)
        if arch.startswith("gemma") and name.endswith("norm.weight"): t = t + 1
        if name.endswith("A_log"): t = -torch.exp(t)
        if name.endswith("sinks"): name += ".weight"
        if "conv1d.weight" in name or name.endswith("conv.conv.weight"): t = t.squeeze(1)
        if each := re.fullmatch(r"(.*\.experts)\.\d+\.(.*)", name):
            stacks.setdefault(f"{each[1]}.{each[2]}", []).append(t)
        elif one := re.fullmatch(r"(.*\.experts)\.(gate_up_proj|down_proj)(_bias)?", name):
            kind = ".bias" if one[3] else ".weight"
            if not one[3]: t = t.transpose(-1, -2)
            if one[2] == "down_proj": yield f"{one[1]}.down_proj{kind}", t
            else:
                yield f"{one[1]}.gate_proj{kind}", t[:, ::2]
                yield f"{one[1]}.up_proj{kind}", t[:, 1::2]
        else: yield name, t
    for name, parts in stacks.items(): yield name, torch.stack(parts)

def write(folder, out, f32=False):
    c = T.AutoConfig.from_pretrained(folder)
    arch = ARCH[c.model_type]
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(kind, c.num_hidden_layers)
    w = gguf.GGUFWriter(out, arch)
    metadata(w, c, arch)
    for name, t in rope_tensors(c): w.add_tensor(name, t.numpy())
    tensors = {name: t.float() for name, t in load_file(os.path.join(folder, "model.safetensors")).items()}
    for name, t in laid_out(tensors, c, arch):
        key = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert key, name
        data = np.ascontiguousarray(t.numpy())
        if arch == "gpt-oss" and "_exps.weight" in key and not f32:
            w.add_tensor(key, quantize(data, Q.MXFP4), raw_dtype=Q.MXFP4)
        # Converters keep small and strange matrices as they are computed with.
        elif data.ndim == 1 or f32 or "ssm_a" in key or "conv" in key and "proj" not in key or key.endswith("bias"):
            w.add_tensor(key, data)
        else: w.add_tensor(key, quantize(data, Q.BF16), raw_dtype=Q.BF16)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def draw_norms(model, seed):
    """Norms of unequal numbers; what Gemma adds to the residual outweighs what its head echoes."""
    generator = torch.Generator().manual_seed(seed)
    for key, p in model.named_parameters():
        if p.dim() != 1 or "norm" not in key: continue
        added = 2.0 if model.config.model_type.startswith("gemma") and "post_" in key else 0.0
        p.data.copy_((p + added + 0.2 * torch.randn(p.shape, generator=generator)).bfloat16().float())

def to_mxfp4(model):
    """Experts as the file can hold them."""
    for key, p in model.named_parameters():
        if re.search(r"experts\.(gate_up|down)_proj$", key):
            rows = np.ascontiguousarray(p.detach().transpose(-1, -2).numpy())
            p.data.copy_(torch.from_numpy(dequantize(quantize(rows, Q.MXFP4), Q.MXFP4)).transpose(-1, -2))

def answers(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for n, new in [(7, 24), (40, 24)]:
        ids = torch.randint(3, V, (1, n), generator=generator)
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False,
                             return_dict_in_generate=True, output_logits=True, pad_token_id=0)
        yield goldens.min_gap(out.logits), dict(
            input_ids=ids.tolist(), sequences=out.sequences.tolist(),
            last_logits=[float(f"{x:.7g}") for x in out.logits[0][0].tolist()])

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--model", help="a folder as save_pretrained writes it")
    parser.add_argument("--f32", action="store_true", help="all tensors in float32")
    args = parser.parse_args()
    if args.model: return write(args.model, args.out, args.f32)
    os.makedirs(args.out, exist_ok=True)
    for name, config in configs():
        if args.only and name not in args.only.split(","): continue
        for attempt in range(20):  # until greedy choices are clear everywhere
            # What is done for its tied Mamba is right for all: layers must outweigh what the head echoes.
            model = goldens.build("mamba" if config.tie_word_embeddings else name, config, args.seed * 1000 + attempt)
            draw_norms(model, args.seed)
            if name == "gpt-oss": to_mxfp4(model)
            with torch.no_grad(): cases = list(answers(model, args.seed))
            if min(gap for gap, _ in cases) > 0.01: break
        else: sys.exit(f"{name}: no seed gives clear choices")
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            write(folder, os.path.join(args.out, name + ".gguf"), args.f32)
        with open(os.path.join(args.out, name + ".json"), "w") as f: json.dump([case for _, case in cases], f)
        print(name, flush=True)

if __name__ == "__main__":
    main()
