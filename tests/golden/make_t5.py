#!/usr/bin/env python3
"""Make tests/golden/t5/: small T5 models that differ in what T5 checkpoints differ in, and T5's distance buckets.

    pip install torch==2.13.0 transformers==5.23.0 safetensors==0.8.0
    python make_t5.py OUT_DIR

NAME/config.json, model.safetensors   as files of that kind are written (bfloat16-exact weights)
NAME/expected.json                    sources and decoder ids of unequal length, and the last logits [up to 3][vocab] of each,
                                      as transformers loads and computes them in float32, one row at a time
buckets.json                          [{buckets, max_distance, bidirectional, bucket: of the distances -200 .. 200}]
"""
import json, os, sys, torch, transformers as T
from safetensors.torch import save_file
from transformers.models.t5.modeling_t5 import T5Attention

out = sys.argv[1]
BASE = dict(model_type="t5", vocab_size=48, d_model=32, d_kv=8, d_ff=40, num_heads=2, num_layers=2, num_decoder_layers=1,
            relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, is_encoder_decoder=True,
            architectures=["T5ForConditionalGeneration"])

# What is left out of a config takes its default; which tensors stand for the embedding differs from file to file.
VARIANTS = {
    "first": (dict(feed_forward_proj="relu"), ["shared"]),
    "v1_1": (dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False), ["shared", "lm_head"]),
    "gated_silu": (dict(feed_forward_proj="gated-silu", num_decoder_layers=3, relative_attention_num_buckets=8,
                        relative_attention_max_distance=20, scale_decoder_outputs=True, layer_norm_epsilon=1e-3),
                   ["encoder.embed_tokens", "decoder.embed_tokens"]),
    "gelu": (dict(feed_forward_proj="gelu", num_decoder_layers=None, num_layers=1, d_kv=20), ["shared"]),
}

def write_model(name, changes, embeddings, seed):
    config = {**BASE, **changes}
    generator = torch.Generator().manual_seed(seed)
    model = T.T5ForConditionalGeneration(T.T5Config(**{k: v for k, v in config.items() if k != "model_type"}))
    tensors = {}
    for key, p in model.state_dict().items():
        if "embed_tokens" in key or key in ("shared.weight", "lm_head.weight"): continue
        scale = 0.2 if p.dim() == 1 else 2.0 if "relative" in key else 1.4 / p.shape[-1] ** 0.5
        tensors[key] = (torch.randn(p.shape, generator=generator) * scale + (1 if p.dim() == 1 else 0)).bfloat16()
    table = torch.randn(config["vocab_size"], config["d_model"], generator=generator).bfloat16()
    for key in embeddings:
        own = torch.randn(table.shape, generator=generator).bfloat16() * 0.3 if key == "lm_head" else table.clone()
        tensors[key + ".weight"] = own
    if name == "first":  # files of that time hold a bias that nothing reads
        tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(32, 2).bfloat16()
    folder = os.path.join(out, name); os.makedirs(folder, exist_ok=True)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f: json.dump(config, f, indent=1)

    model = T.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    for n_source, n_target in [(3, 5), (150, 1), (70, 80)]:
        source = torch.randint(2, config["vocab_size"], (1, n_source), generator=generator)
        target = torch.randint(2, config["vocab_size"], (1, n_target), generator=generator)
        target[0, 0] = 0
        with torch.no_grad(): logits = model(input_ids=source, decoder_input_ids=target).logits[0]
        rows.append(dict(source=source[0].tolist(), target=target[0].tolist(),
                         logits=[[round(x, 5) for x in row] for row in logits[-3:].tolist()]))
    with open(os.path.join(folder, "expected.json"), "w") as f: json.dump(rows, f)

def write_buckets():
    distances = torch.arange(-200, 201)
    cases = []
    for buckets, max_distance in [(32, 128), (8, 20), (4, 3), (64, 200), (16, 100), (32, 17)]:
        for bidirectional in (True, False):
            bucket = T5Attention._relative_position_bucket(distances, bidirectional, buckets, max_distance)
            cases.append(dict(buckets=buckets, max_distance=max_distance, bidirectional=bidirectional, bucket=bucket.tolist()))
    with open(os.path.join(out, "buckets.json"), "w") as f: json.dump(cases, f)

os.makedirs(out, exist_ok=True)
for seed, (name, (changes, embeddings)) in enumerate(VARIANTS.items()): write_model(name, changes, embeddings, seed)
write_buckets()
