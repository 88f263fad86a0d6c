#!/usr/bin/env python3
"""Write what transformers' generate() answers with all kinds of options: generate_options.json, read by
tests/generate/generate_options_test.cc. The models are those of models/, in float32.

    pip install torch==2.13.0 transformers==5.23.0
    python make_generate_options.py generate_options.json

cases[]  "model", "options" by their generation_config.json keys (negative_prompt_ids too), "input_ids",
         "attention_mask", "sequences" (prompt included), "sequences_scores" and "beam_indices" of beams, "logprobs" of
         the first row's tokens under the processed scores
"""
import json, os, sys, torch, transformers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

HERE = os.path.dirname(os.path.abspath(__file__))
ONE = [[66, 12, 9, 140, 9, 12]]
SHARED = [
    dict(repetition_penalty=1.5), dict(repetition_penalty=0.5), dict(encoder_repetition_penalty=2.0),
    dict(no_repeat_ngram_size=1), dict(no_repeat_ngram_size=2), dict(encoder_no_repeat_ngram_size=1),
    dict(forced_eos_token_id=7), dict(forced_eos_token_id=[7, 9]), dict(suppress_tokens=list(range(3, 256))),
    dict(begin_suppress_tokens=list(range(3, 256))), dict(bad_words_ids=[[i] for i in range(200, 512)]),
    dict(sequence_bias=[[[17], 30.0]]), dict(renormalize_logits=True), dict(watermarking_config=dict(bias=8.0)),
    dict(watermarking_config=dict(bias=8.0, seeding_scheme="selfhash", context_width=2)),
    dict(eos_token_id=list(range(3, 256))), dict(eos_token_id=list(range(3, 256)), min_length=9),
    dict(eos_token_id=list(range(3, 256)), min_new_tokens=4),
    dict(eos_token_id=list(range(3, 64)), exponential_decay_length_penalty=[2, 2.0]),
    dict(forced_bos_token_id=5), dict(remove_invalid_values=True),
]
CAUSAL = [dict(guidance_scale=1.5), dict(guidance_scale=0.5), dict(guidance_scale=3.0, negative_prompt_ids=[[5, 6, 7]]),
          dict(guidance_scale=1.5, negative_prompt_ids=[[300, 20]], repetition_penalty=1.3),
          dict(guidance_scale=1.0), dict(guidance_scale=0.0), dict(guidance_scale=-2.0), dict(guidance_scale=20.0)]
BEAMS = [
    dict(num_beams=2), dict(num_beams=5, num_return_sequences=5), dict(num_beams=3, length_penalty=-1.0),
    dict(num_beams=3, length_penalty=0.0), dict(num_beams=3, length_penalty=2.0),
    *[dict(num_beams=n, num_return_sequences=n, early_stopping=early, length_penalty=penalty, eos_token_id=eos)
      for n, early, penalty, eos in [
          (4, False, 1.0, list(range(3, 40))), (4, True, 1.0, list(range(3, 40))), (4, "never", 1.0, list(range(3, 40))),
          (3, False, -0.5, list(range(3, 120))), (3, True, 0.0, list(range(3, 120))), (3, "never", 2.0, list(range(3, 120))),
          (3, "never", -1.0, [3, 5, 8, 100, 101, 102]), (6, False, 0.6, [11]), (40, True, 1.0, list(range(3, 9)))]],
    dict(num_beams=4, num_return_sequences=2, no_repeat_ngram_size=2, repetition_penalty=1.2),
    dict(num_beams=4, num_return_sequences=4, forced_eos_token_id=7),
    dict(num_beams=3, num_return_sequences=3, eos_token_id=list(range(3, 120)), min_new_tokens=3),
    dict(num_beams=3, num_return_sequences=1, max_new_tokens=1),
]

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cases = []
    for name in ("llama", "mistral_window8", "t5"):
        kind = AutoModelForSeq2SeqLM if name == "t5" else AutoModelForCausalLM
        model = kind.from_pretrained(os.path.join(HERE, "models", name), dtype=torch.float32,
                                     attn_implementation="eager").eval()
        model.generation_config.eos_token_id = None
        batch = torch.randint(3, 512, (3, 9))
        mask = torch.ones_like(batch)
        batch[1, :4], mask[1, :4] = 0, 0
        wanted = [(o, False) for o in SHARED + (CAUSAL if name != "t5" else [])] if name != "mistral_window8" else []
        wanted += [(o, False) for o in BEAMS] + [(o, True) for o in BEAMS[:9]]
        if name == "t5": batch, mask = torch.randint(3, 512, (3, 9)), torch.ones_like(mask)
        for options, batched in wanted:
            x = batch if batched else torch.tensor(ONE)
            m = mask if batched else torch.ones_like(x)
            call = dict(max_new_tokens=12, do_sample=False, pad_token_id=0) | options
            if "negative_prompt_ids" in call: call["negative_prompt_ids"] = torch.tensor(call["negative_prompt_ids"])
            with torch.no_grad():
                out = model.generate(x, attention_mask=m, return_dict_in_generate=True, output_scores=True,
                                     output_logits=True, **call)
            case = dict(model=name, options=dict(max_new_tokens=12) | options, input_ids=x.tolist(),
                        attention_mask=m.tolist(), sequences=out.sequences.tolist())
            if options.get("num_beams", 1) > 1:
                case |= dict(sequences_scores=out.sequences_scores.tolist(), beam_indices=out.beam_indices.tolist())
            cases.append(case)
    with open(sys.argv[1], "w") as file:
        json.dump(dict(reference=f"transformers {transformers.__version__}", cases=cases), file, separators=(",", ":"))
    print(len(cases), "cases")

if __name__ == "__main__":
    main()
