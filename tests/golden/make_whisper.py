#!/usr/bin/env python3
"""Make a small Whisper that hears one second, sounds for it, and what transformers answers on them.

    pip install torch==2.13.0 transformers==5.23.0 safetensors
    python make_whisper.py OUT_DIR [--seed N]            OUT_DIR/whisper, the folder that the tests read

config.json, model.safetensors, generation_config.json, preprocessor_config.json, tokenizer.json as save_pretrained writes
them; the tokenizer knows bytes, languages, tasks and times.
short.wav, stereo.wav        0.8 s of 16-bit PCM, 0.31 s of two channels of float32
features.safetensors         short, stereo: their features [80, 100]; short_128: with 128 bands
golden.json                  cases[i]: sounds, the keywords given to generate, sequences (the decoder's prompt included),
                             min_gap (greedy) or sequences_scores (beams), last_logits: behind the decoder's prompt
"""
import argparse, json, os, struct, numpy as np, torch
import transformers as T
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers.generation import GenerationMixin

RATE = 16000
LANGUAGES = ["en", "de", "fr", "ja"]
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", *[f"<|{c}|>" for c in LANGUAGES], "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]

def sounds(seed):
    g = np.random.default_rng(seed)
    def speech(n, f0):
        t = np.arange(n) / RATE
        pitch = 2 * np.pi * np.cumsum(f0 * (1 + 0.2 * np.sin(2 * np.pi * 3 * t))) / RATE
        voice = sum(np.sin(k * pitch) / k * (1 + np.sin(2 * np.pi * (2 + k % 3) * t)) for k in range(1, 20))
        return (0.08 * voice + 0.01 * g.standard_normal(n)).astype(np.float32)
    return speech(12800, 140.0), np.stack([speech(4960, 210.0), speech(4960, 330.0)], 1)

def write_wav(path, x):
    x = x.reshape(len(x), -1)
    floats = x.shape[1] == 2
    data = x.astype("<f4").tobytes() if floats else np.round(x * 32767).astype("<i2").tobytes()
    size = 4 if floats else 2
    form = struct.pack("<HHIIHH", 3 if floats else 1, x.shape[1], RATE, RATE * size * x.shape[1], size * x.shape[1], 8 * size)
    with open(path, "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", 4 + 8 + len(form) + 8 + len(data)) + b"WAVE")
        f.write(b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data)
    return x.mean(1, dtype=np.float64).astype(np.float32) if floats else (np.round(x[:, 0] * 32767) / 32768).astype(np.float32)

def tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True) for s in SPECIAL])
    t.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>", special=False) for i in range(51)])
    t.post_processor = processors.TemplateProcessing(
        single="<|startoftranscript|> <|notimestamps|> $A:0 <|endoftext|>:0",
        special_tokens=[(s, t.token_to_id(s)) for s in SPECIAL])
    return t

def model(t, seed):
    ids = {s: t.token_to_id(s) for s in SPECIAL}
    eos = ids["<|endoftext|>"]
    config = T.WhisperConfig(vocab_size=t.get_vocab_size(), d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                             decoder_attention_heads=2, encoder_ffn_dim=96, decoder_ffn_dim=128, max_source_positions=50,
                             max_target_positions=64, pad_token_id=eos, bos_token_id=eos, eos_token_id=eos,
                             decoder_start_token_id=ids["<|startoftranscript|>"])
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    m = T.WhisperForConditionalGeneration(config).float().eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for key, p in m.named_parameters():
            if p.dim() >= 2:
                scale = 0.2 if "decoder.embed_tokens" in key else 1.0 if "embed_positions" in key else 3.0 / (p.shape[1] * (p.shape[2] if p.dim() == 3 else 1)) ** 0.5
                if key == "model.encoder.embed_positions.weight": scale = 0.2  # what is heard must matter
                p.copy_(torch.randn(p.shape, generator=generator) * scale)
            elif key.endswith("bias"): p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
            p.copy_(p.to(torch.bfloat16).float())
    m.generation_config = T.GenerationConfig(
        decoder_start_token_id=config.decoder_start_token_id, eos_token_id=eos, pad_token_id=eos, bos_token_id=eos, max_length=64,
        suppress_tokens=[1, 5, 9, *[ids[s] for s in SPECIAL if s != "<|endoftext|>"]], begin_suppress_tokens=[t.token_to_id("\u0120"), eos],
        lang_to_id={f"<|{c}|>": ids[f"<|{c}|>"] for c in LANGUAGES},
        task_to_id={s: ids[f"<|{s}|>"] for s in ("transcribe", "translate")}, is_multilingual=True, return_timestamps=False,
        no_timestamps_token_id=ids["<|notimestamps|>"], forced_decoder_ids=[[1, None], [2, ids["<|transcribe|>"]]])
    return m

def cases(m, extractor, heard):
    features = {k: extractor(x, sampling_rate=RATE, return_tensors="pt").input_features for k, x in heard.items()}
    for names, keywords in [(["short"], dict(language="en")), (["stereo"], dict(language="<|de|>", task="translate")),
                            (["short"], {}), (["stereo"], dict(task="translate")), (["short", "stereo"], dict(language="ja", task="transcribe")),
                            (["short", "stereo"], {}),
                            (["short"], dict(language="fr", num_beams=3)),
                            (["short", "stereo"], dict(language="en", num_beams=4, length_penalty=0.6))]:
        x = torch.cat([features[n] for n in names])
        calls = []
        plain = GenerationMixin.generate  # what Whisper's generate asks for, its decoder's prompt included
        def recorded(self, *args, **kw):
            calls.append((kw, plain(self, *args, **kw)))
            return calls[-1][1]
        GenerationMixin.generate = recorded
        with torch.no_grad():
            m.generate(x, max_new_tokens=16, return_dict_in_generate=True, output_scores=True, output_logits=True, **keywords)
        GenerationMixin.generate = plain
        kw, out = calls[0]  # further ones go on behind times that were said
        prompt = kw["decoder_input_ids"]
        case = dict(sounds=names, options=keywords, max_new_tokens=16, decoder_input_ids=prompt.tolist(), sequences=out.sequences.tolist())
        if "num_beams" in keywords: case["sequences_scores"] = out.sequences_scores.tolist()
        else:
            top = [torch.topk(s, 2).values for s in out.scores]
            case["min_gap"] = min((s[:, 0] - s[:, 1]).min().item() for s in top)
            case["last_logits"] = out.logits[0].tolist()
        yield case

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out"); parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = os.path.join(args.out, "whisper"); os.makedirs(folder, exist_ok=True)
    path = lambda name: os.path.join(folder, name)
    short, stereo = sounds(args.seed)
    heard = dict(short=write_wav(path("short.wav"), short), stereo=write_wav(path("stereo.wav"), stereo))
    extractors = {n: T.WhisperFeatureExtractor(feature_size=n, chunk_length=1) for n in (80, 128)}
    features = lambda x, n: extractors[n](x, sampling_rate=RATE, return_tensors="pt").input_features[0].contiguous()
    save_file(dict(short=features(heard["short"], 80), stereo=features(heard["stereo"], 80), short_128=features(heard["short"], 128)), path("features.safetensors"))
    t = tokenizer()
    for attempt in range(40):  # until greedy choices are clear and what is heard matters
        seed = args.seed * 1000 + attempt
        m = model(t, seed)
        done = list(cases(m, extractors[80], heard))
        gap = min(c["min_gap"] for c in done if "min_gap" in c)
        new = [tuple(s[len(c["decoder_input_ids"][0]):]) for c in done if "min_gap" in c for s in c["sequences"]]
        print(f"attempt {attempt} gap {gap:.4f} distinct {len(set(new))} of {len(new)}, fewest {min(len(set(n)) for n in new)}")
        if gap > 2e-3 and len(set(new)) >= 7 and min(len(set(n)) for n in new) > 4: break
    m.to(torch.bfloat16).save_pretrained(folder)
    extractors[80].save_pretrained(folder)
    t.save(path("tokenizer.json"))
    with open(path("golden.json"), "w") as f:
        json.dump(dict(reference=f"transformers {T.__version__}, torch {torch.__version__}, float32, cpu, eager", seed=seed, cases=done), f)

if __name__ == "__main__":
    main()
