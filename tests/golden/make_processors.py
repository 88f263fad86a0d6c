#!/usr/bin/env python3
"""Write what transformers' logits processors make of random scores: processors.json, read by
tests/generate/processors_test.cc. The list of processors and its order are generate()'s own.

    pip install torch==2.13.0 transformers==5.23.0
    python make_processors.py processors.json

cases[]  the settings by their generation_config.json keys, "eos_token_id", "tokens" (prompt and new), "n_new",
         "prompt_length", "max_new_tokens", "source" (what an encoder read), "allowed" (prefix_allowed_tokens_fn's
         answer, or null), "scores" before and "processed" after; null = -infinity (banned), "nan", "inf"
"""
import json, math, sys, torch, transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

V, EOS, MAX_NEW = 48, [2, 9], 6
SAMPLE = dict(do_sample=True, top_k=0)
SETTINGS = [
    {},
    *[dict(repetition_penalty=p) for p in (1.3, 0.8, 1.0, 10.0, 1e-3)],
    *[dict(encoder_repetition_penalty=p) for p in (1.3, 0.8, 1.0, 10.0, 1e-3)],
    *[dict(no_repeat_ngram_size=n) for n in (0, 1, 2, 3, 40)],
    *[dict(encoder_no_repeat_ngram_size=n) for n in (0, 1, 2, 3, 40)],
    *[dict(min_length=n) for n in (0, 6, 7, 9, 100)],
    *[dict(min_new_tokens=n) for n in (0, 1, 3, 5, 6)],
    *[dict(bad_words_ids=w) for w in ([[3]], [[2]], [[3], [9], [7, 4]], [[1, 1, 5], [1, 6]], [[i] for i in range(V)])],
    *[dict(sequence_bias=b) for b in ([[[3], 2.5]], [[[3], -4.0], [[3, 4], 1.0]], [[[1, 1, 5], 7.0], [[1, 6], -7.0]],
                                      [[[0], 1e30], [[V - 1], -1e30]], [[[i], 1.0] for i in range(V)])],
    *[dict(forced_bos_token_id=i) for i in (0, 5, 23)],
    *[dict(forced_eos_token_id=i) for i in (0, 2, [2, 9], [23, 5])],
    *[dict(suppress_tokens=t) for t in ([], [0], [3, 4, 5], [2, 9], list(range(V)))],
    *[dict(begin_suppress_tokens=t) for t in ([], [0], [3, 4, 5], [2, 9], list(range(V)))],
    dict(begin_suppress_tokens=[3, 4], forced_bos_token_id=5),
    *[dict(exponential_decay_length_penalty=p) for p in ([0, 1.5], [1, 1.01], [3, 2.0], [100, 2.0], [0, 0.5])],
    *[dict(renormalize_logits=r) for r in (True, False)],
    dict(renormalize_logits=True, suppress_tokens=[1, 2]),
    dict(remove_invalid_values=True),
    dict(remove_invalid_values=True, suppress_tokens=[1]),
    *[dict(SAMPLE, temperature=t) for t in (0.7, 2.5, 1.0, 0.01, 100.0)],
    *[dict(do_sample=True, top_k=k) for k in (1, 5, V - 1, V, 200)],
    dict(do_sample=True),
    *[dict(SAMPLE, top_p=p) for p in (0.0, 0.01, 0.5, 0.9, 1.0)],
    *[dict(SAMPLE, min_p=p) for p in (0.0, 0.05, 0.5, 0.999, 1.0)],
    *[dict(SAMPLE, top_h=p) for p in (0.01, 0.2, 0.5, 0.9, 0.999)],
    *[dict(SAMPLE, typical_p=p) for p in (0.01, 0.2, 0.5, 0.9, 1.0)],
    *[dict(SAMPLE, epsilon_cutoff=p) for p in (0.0, 1e-4, 0.02, 0.3, 0.999)],
    *[dict(SAMPLE, eta_cutoff=p) for p in (0.0, 1e-4, 0.02, 0.3, 0.999)],
    *[dict(watermarking_config=w) for w in (dict(), dict(greenlist_ratio=0.5, bias=4.0), dict(context_width=100),
                                            dict(seeding_scheme="selfhash"),
                                            dict(seeding_scheme="selfhash", context_width=3, hashing_key=7))],
    *[dict(SAMPLE, num_beams=3, **k) for k in (dict(top_p=0.01), dict(min_p=1.0), dict(typical_p=0.01),
                                               dict(epsilon_cutoff=0.999), dict(eta_cutoff=0.999))],
    dict(do_sample=True, num_beams=3, top_k=1),
    dict(do_sample=True, temperature=0.6, top_k=10, top_p=0.8, min_p=0.1, typical_p=0.95, epsilon_cutoff=1e-3,
         eta_cutoff=1e-3, repetition_penalty=1.2, encoder_repetition_penalty=1.1, no_repeat_ngram_size=2,
         min_new_tokens=4, bad_words_ids=[[3], [7, 4]], sequence_bias=[[[4], 1.5]], suppress_tokens=[6],
         exponential_decay_length_penalty=[1, 1.3], renormalize_logits=True),
]
ALLOWED = [[3], [0, 23], [2, 9], list(range(V)), [5, 5]]

ORDERED = {"top_p", "top_h", "watermarking_config", "num_beams"}  # which of equals they take is nobody's promise

def written(x): return None if x == -math.inf else "inf" if x == math.inf else "nan" if math.isnan(x) else float(f"{x:.7g}")

def main():
    model = LlamaForCausalLM(LlamaConfig(vocab_size=V, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                         num_attention_heads=1))
    generator = torch.Generator().manual_seed(7)
    cases = []

    def add(settings, tokens, n_new, scores, source, allowed=None):
        config = GenerationConfig(max_new_tokens=MAX_NEW, **settings)
        if "top_k" not in settings: config.top_k = 50
        if config.num_beams is None: config.num_beams = 1
        config.max_length = tokens.shape[1] - n_new + MAX_NEW
        config._eos_token_tensor = torch.tensor(EOS)
        processors = model._get_logits_processor(
            config, input_ids_seq_length=tokens.shape[1] - n_new, encoder_input_ids=source, device="cpu",
            prefix_allowed_tokens_fn=(lambda batch, ids: allowed) if allowed is not None else None)
        rows = config.num_beams or 1
        try:
            processed = processors(tokens.repeat(rows, 1), scores.clone().repeat(rows, 1))[0]
        except ValueError:  # torch.distributions refuses scores of which nothing is left
            assert torch.isinf(scores).all(), settings
            processed = scores[0]
        if torch.isnan(processed).any() and not torch.isnan(scores).any(): processed = scores[0]  # log_softmax of nothing
        cases.append(dict(settings=settings, eos_token_id=EOS, tokens=tokens[0].tolist(), n_new=n_new,
                          prompt_length=tokens.shape[1] - n_new, max_new_tokens=MAX_NEW, source=source[0].tolist(),
                          allowed=allowed, scores=[written(x) for x in scores[0].tolist()],
                          processed=[written(x) for x in processed.tolist()]))

    for settings, allowed in [(s, None) for s in SETTINGS] + [({}, a) for a in ALLOWED]:
        for n_prompt, n_new in ((6, 0), (6, 2), (6, 5), (1, 0), (1, 1)):
            tokens = torch.randint(0, V, (1, n_prompt + n_new), generator=generator)
            if n_prompt > 1: tokens[0, 1] = tokens[0, 2] = tokens[0, 3] = tokens[0, -1] = 1  # one that occurs often
            scores = (torch.randperm(4 * V, generator=generator)[None, :V] - 2 * V) / 16  # short numbers, no two alike
            if n_new == 5 and not settings.keys() & ORDERED: scores = scores.round()  # ties
            source = torch.randint(0, V, (1, 9), generator=generator)
            source[0, 3:5] = tokens[0, -1]
            if settings.get("remove_invalid_values"):
                scores[0, 3], scores[0, 4], scores[0, 5] = math.nan, math.inf, -math.inf
            add(settings, tokens, n_new, scores, source, allowed)
        if "watermarking_config" in settings or settings.get("remove_invalid_values"): continue
        add(settings, tokens, n_new, torch.full((1, V), -math.inf), source, allowed)  # nothing is left
        one = torch.full((1, V), -math.inf); one[0, 7] = -2.0  # one is left
        add(settings, tokens, n_new, one, source, allowed)
    with open(sys.argv[1], "w") as file:
        json.dump(dict(reference=f"transformers {transformers.__version__}", cases=cases), file, separators=(",", ":"))
    print(len(cases), "cases")

if __name__ == "__main__":
    main()
