#!/usr/bin/env python3
"""What guessing tokens ahead wins, on a prompt whose answer repeats it and on one whose answer does not.

    drafts.py [--mneme build/mneme] [--model PATH] [--assistant PATH] [--cache-config JSON] [--repeats 3]

Prompt lookup, and an assistant model if one is given, against plain decoding, in runs that take turns: one JSON line for
each prompt and way, with the median milliseconds of a new token and how many guesses were right. The gate before the
figures: all ways write the same ids.
"""
import argparse
import json
import statistics
import sys

from program import generate

STORY = (
    "The lighthouse keeper wrote down every ship that passed, its flag, its course and the hour of the night, and when "
    "the fog came he rang the bell until the last of them had found the channel between the rocks."
)
PROMPTS = {
    "copies": ["--prompt", f"{STORY}\n{STORY}\n{STORY}\n"],
    "writes": ["--chat", "--prompt", "Write a short story about a lighthouse keeper who cannot sleep."],
}


def run(options, prompt, more):
    cache = ["--cache-config", options.cache_config] if options.cache_config else []
    output = generate(options, [*prompt, "--max-new-tokens", "96", *cache, *more])
    new = output["usage"]["new_tokens"]
    return {
        "ms": output["timing"]["decode_ms"] / (new - 1),
        "ids": output["sequences"][0][-new:],
        "guessed": output["usage"].get("draft_tokens", 0),
        "right": output["usage"].get("accepted_tokens", 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mneme", default="build/mneme")
    parser.add_argument("--model", help="default: the model that set-up fetched")
    parser.add_argument("--assistant", help="a smaller model that guesses")
    parser.add_argument("--cache-config", help="as of mneme generate")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    ways = {"plain": [], "prompt lookup": ["--prompt-lookup-num-tokens", "10"]}
    if options.assistant:
        ways["assistant"] = ["--assistant-model", options.assistant]
    for name, prompt in PROMPTS.items():
        runs = {way: [] for way in ways}
        for _ in range(options.repeats):
            for way, more in ways.items():
                runs[way].append(run(options, prompt, more))
        plain = runs["plain"][0]["ids"]
        for way, made in runs.items():
            if any(one["ids"] != plain for one in made):
                sys.exit(f"{name}: {way} writes another text than plain decoding")
            ms = statistics.median(one["ms"] for one in made)
            line = {"prompt": name, "way": way, "ms_a_token": round(ms, 2)}
            if way != "plain":
                line["times_as_fast"] = round(statistics.median(one["ms"] for one in runs["plain"]) / ms, 2)
                line["guessed"], line["right"] = made[0]["guessed"], made[0]["right"]
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
