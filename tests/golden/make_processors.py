#!/usr/bin/env python3
"""Write what transformers' logits processors make of random scores: processors.json, read by tests/generate/logits_test.cc.

    pip install torch==2.13.0 transformers==5.23.0
    python make_processors.py processors.json

cases[]  the settings by their generation_config.json keys, "eos_token_id", "tokens" (prompt and new), "n_new",
         "scores" before, "processed" after all processors in generate()'s order; null = -infinity (banned)
"""
import json, math, sys, torch, transformers
from transformers import GenerationConfig
from transformers.generation import logits_process as P

V = 24
SETTINGS = [
    {},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8},
    {"min_new_tokens": 3},
    {"do_sample": True, "temperature": 0.7, "top_k": 0},
    {"do_sample": True, "temperature": 2.5, "top_k": 0},
    {"do_sample": True, "top_k": 1},
    {"do_sample": True, "top_k": 5},
    {"do_sample": True, "top_k": 200},
    {"do_sample": True, "top_k": 0, "top_p": 0.01},
    {"do_sample": True, "top_k": 0, "top_p": 0.5},
    {"do_sample": True, "top_k": 0, "top_p": 0.9},
    {"do_sample": True, "top_k": 0, "min_p": 0.05},
    {"do_sample": True, "top_k": 0, "min_p": 0.5},
    {"do_sample": True, "top_k": 0, "min_p": 1.0},
    {"do_sample": True, "temperature": 0.6, "top_k": 10, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.2,
     "min_new_tokens": 4},
]

def processors(settings, prompt_length, eos):
    result = P.LogitsProcessorList()
    if (penalty := settings.get("repetition_penalty", 1.0)) != 1.0:
        result.append(P.RepetitionPenaltyLogitsProcessor(penalty))
    if settings.get("min_new_tokens"):
        result.append(P.MinNewTokensLengthLogitsProcessor(prompt_length, settings["min_new_tokens"], eos))
    if settings.get("do_sample"):
        if settings.get("temperature", 1.0) != 1.0: result.append(P.TemperatureLogitsWarper(settings["temperature"]))
        if settings.get("top_k", 50): result.append(P.TopKLogitsWarper(settings.get("top_k", 50)))
        if settings.get("top_p", 1.0) < 1.0: result.append(P.TopPLogitsWarper(settings["top_p"]))
        if settings.get("min_p"): result.append(P.MinPLogitsWarper(settings["min_p"]))
    return result

def main():
    generator = torch.Generator().manual_seed(7)
    cases = []
    for settings in SETTINGS:
        for n_new in (0, 2, 5):
            tokens = torch.randint(0, V, (1, 6 + n_new), generator=generator)
            tokens[0, 1] = tokens[0, 2] = tokens[0, 3]  # one that occurs three times
            scores = torch.randn(1, V, generator=generator) * 3
            if n_new == 5: scores = scores.round()  # ties
            eos = [2, 9]
            processed = processors(settings, 6, eos)(tokens, scores.clone())[0]
            cases.append(dict(settings=settings, eos_token_id=eos, tokens=tokens[0].tolist(), n_new=n_new,
                              scores=scores[0].tolist(),
                              processed=[None if math.isinf(x) else x for x in processed.tolist()]))
    with open(sys.argv[1], "w") as file:
        json.dump(dict(reference=f"transformers {transformers.__version__}", cases=cases), file)

if __name__ == "__main__":
    main()
