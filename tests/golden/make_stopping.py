#!/usr/bin/env python3
"""Write when transformers' stopping criteria end a text: stopping.json, read by tests/generate/stopping_test.cc. The
tokenizers are those of tokenizers/.

    pip install torch==2.13.0 transformers==5.23.0
    python make_stopping.py stopping.json

strings[]  "tokenizer", "ids" of a text so far, "stop_strings", "ends": whether the last id completes one of them
eos[]      "eos_token_id", "ids", "ends"
lengths[]  "max_length", "length" of a text so far, "ends"
"""
import json, os, random, sys, torch, transformers
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, StopStringCriteria

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = ("The quick brown fox jumps over the lazy dog.\n\nUser: what is it?\nAssistant: It's a fox, isn't it? I'm sure. "
        "def f(n):\n    return f(n - 1)\n\n### End of code. Le garçon, où êtes-vous? 1234567 and 100%. stop STOP Stop")
FIXED = [  # where a text ends, and what it stops at
    ("User:", ["User:"]), ("User: what", ["User:"]), ("User: what", ["User: wh", "zebra"]), ("\n\n", ["\n\n"]),
    ("\n\nUser", ["\n\n"]), ("\n\nUser", ["\n\nU"]), ("fox jumps", ["ox jum"]), ("fox jumps", ["jumps over"]),
    ("fox jumps", [" jumps"]), ("fox jumps", ["s"]), ("The quick", ["The"]), ("### End", ["###"]), ("### End", ["### E"]),
    ("isn't", ["'t"]), ("isn't", ["n't"]), ("garçon", ["garçon"]), ("garçon", ["çon"]), ("garçon", ["GARÇON"]),
    ("1234567", ["67"]), ("1234567", ["456"]), ("100%", ["%"]), ("100%", ["100", "%."]), ("Stop", ["stop"]),
    ("STOP", ["stop", "STOP"]), (" stop", [" stop"]), (" stop", ["top"]), ("lazy dog.", ["dog", "."]),
    ("lazy dog.", ["x" * 40]), ("lazy dog.", [TEXT[:44]]), ("return f", ["\n    return f"]),
]

def main():
    generator = random.Random(7)
    strings = []
    for name in ("smollm2", "llama2"):
        own = json.load(open(os.path.join(HERE, "tokenizers", name + ".json")))["tokenizer"]
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(own if isinstance(own, str) else json.dumps(own)))
        def add(ids, stops):
            ends = StopStringCriteria(tokenizer, stops)(torch.tensor([ids]), None)[0].item()
            strings.append(dict(tokenizer=name, ids=ids, stop_strings=stops, ends=ends))
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
        for end, stops in FIXED:
            add(encode(TEXT[:TEXT.index(end) + len(end)]), stops)
        ids = encode(TEXT)
        for _ in range(40):
            n = generator.randrange(6, len(ids))
            text = tokenizer.decode(ids[:n])
            if "\ufffd" in text: continue  # a character that is not whole
            end = len(text) - generator.choice([0, 0, 0, 1, 2, 5])
            add(ids[:n], [text[end - generator.choice([1, 2, 4, 9, 20]):end]])
    eos = [dict(eos_token_id=e, ids=ids, ends=EosTokenCriteria(e)(torch.tensor([ids]), None)[0].item())
           for e, ids in [([2], [1, 2]), ([2], [2, 1]), ([2, 9], [1, 9]), ([2, 9], [9, 3]), ([0], [5, 0]), ([7, 8, 9], [7])]]
    lengths = [dict(max_length=m, length=n, ends=MaxLengthCriteria(m)(torch.zeros(1, n, dtype=torch.long), None)[0].item())
               for m, n in [(8, 4), (8, 7), (8, 8), (20, 19), (20, 20), (4, 4)]]
    with open(sys.argv[1], "w") as file:
        json.dump(dict(reference=f"transformers {transformers.__version__}", strings=strings, eos=eos, lengths=lengths), file, separators=(",", ":"))
    print(len(strings), "cases,", sum(c["ends"] for c in strings), "of them end")

if __name__ == "__main__":
    main()
