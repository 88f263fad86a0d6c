#!/usr/bin/env python3
"""What one more token costs with and without a cache as context grows, and a plot of it.

    step_cost.py [--mneme build/mneme] [--model PATH] [--lengths 64,128,..] [--repeats 3] [--svg OUT.svg]

Each figure is the median over runs of `mneme generate --json`: its time for the tokens after the first, for each of
them. With and without take turns, so what else the machine does weighs on both. One JSON line a length; the gate
before the figures: both write the same ids.
"""
import argparse
import json
import statistics
import sys

import plot
from program import generate


def step(options, n_tokens, n_new, with_cache):
    """Milliseconds a new token behind n_tokens, and the ids that were written."""
    ids = ",".join(str(100 + 7 * i % 2000) for i in range(n_tokens))
    no_cache = [] if with_cache else ["--no-use-cache"]
    output = generate(
        options, ["--ids", ids, "--max-new-tokens", str(n_new), "--dtype", options.dtype, *no_cache]
    )
    return output["timing"]["decode_ms"] / (n_new - 1), output["sequences"][0][n_tokens:]


def measure(options, n_tokens):
    with_cache, without = [], []
    for _ in range(options.repeats):
        ms, ids = step(options, n_tokens, 17, True)
        with_cache.append(ms)
        ms, others = step(options, n_tokens, 4, False)
        without.append(ms)
        if ids[: len(others)] != others:
            sys.exit(f"{n_tokens} tokens: with a cache {ids[:len(others)]}, without {others}")
    return statistics.median(with_cache), statistics.median(without)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mneme", default="build/mneme")
    parser.add_argument("--model", help="default: the model that set-up fetched")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--lengths", default="64,128,256,512,1024,2048")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--svg", help="where to draw the figures")
    options = parser.parse_args()
    lines = {"with a cache": [], "without": []}
    for n_tokens in map(int, options.lengths.split(",")):
        cached, plain = measure(options, n_tokens)
        row = {"tokens": n_tokens, "cached_ms": round(cached, 2), "no_cache_ms": round(plain, 2)}
        print(json.dumps(row | {"ratio": round(plain / cached, 1)}), flush=True)
        lines["with a cache"].append([n_tokens, row["cached_ms"]])
        lines["without"].append([n_tokens, row["no_cache_ms"]])
    if options.svg:
        figure = {
            "title": "What one more token costs",
            "subtitle": "SmolLM2-135M-Instruct, " + options.dtype + ", on two CPU cores; medians",
            "x": {"label": "tokens so far", "log": True, "ticks": [n for n, _ in lines["without"]]},
            "y": {"label": "milliseconds a token", "log": True},
            "lines": [{"name": name, "points": points} for name, points in lines.items()],
        }
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(plot.draw(figure))


if __name__ == "__main__":
    main()
