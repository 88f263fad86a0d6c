#!/usr/bin/env python3
"""Writes tests/fuzz/seeds/tokenizer/ from tests/golden/tokenizers/: each part of a tokenizer.json that tokenizer_fuzz.cc
replaces, as the families spell it, before a zero byte and a text."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEEDS = HERE.parent / "fuzz" / "seeds" / "tokenizer"
# The order of tokenizer_fuzz.cc: a file's first byte, modulo 8, says what follows. "0" is 48, so digits are choices.
PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model")
MODEL_KEYS = ("type", "unk_token", "byte_fallback", "fuse_unk", "ignore_merges", "end_of_word_suffix",
              "continuing_subword_prefix")
TEXT = "ab <s> It's 12 é\u0301 日本 😀\n"


def main() -> None:
    SEEDS.mkdir(exist_ok=True)
    seen = set()
    for path in sorted((HERE / "tokenizers").glob("*.json")):
        tokenizer = json.loads(path.read_text(encoding="utf-8"))
        tokenizer = tokenizer.get("tokenizer") if isinstance(tokenizer, dict) else None
        if not tokenizer:
            continue
        for choice, part in enumerate(PARTS, start=2):
            value = tokenizer.get(part)
            if part == "model":
                value = {key: value[key] for key in MODEL_KEYS if value.get(key) is not None}
                if value["type"] == "Unigram":
                    value |= {"vocab": [["u", 0.0], ["a", -1.0], ["b", -1.5], ["ab", -2.0]], "unk_id": 0}
                else:
                    value |= {"vocab": {"a": 0, "b": 1, "ab": 2, value.get("unk_token", "u"): 3}, "merges": ["a b"]}
            elif part == "added_tokens":
                value = value[:3]
            text = json.dumps(value, ensure_ascii=False)
            if value and text not in seen and len(text) < 2000:
                seen.add(text)
                (SEEDS / f"{path.stem}_{part}").write_text(f"{choice}{text}\0{TEXT}", encoding="utf-8")
    (SEEDS / "text").write_text("1" + TEXT, encoding="utf-8")


if __name__ == "__main__":
    main()
