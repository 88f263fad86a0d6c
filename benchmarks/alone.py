#!/usr/bin/env python3
"""Mneme alone, in one run: every codec and kind of cache, every weight format, batches, prompts, start and memory.

    alone.py [--measure codecs,formats,..] [--rounds 5] [--out build/bench/alone.json]

One process for each weight format waits while others compute (peers/mneme_worker.cc); what is compared takes turns round
by round, and medians count. One JSON line a figure on stdout; the file is for report.py. The gate: greedy ids of lossless
caches are equal. How many of 16 agree with float32's stands beside each weight format.
"""
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys

from program import measured

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from compare import (  # noqa: E402
    KIVI, KIVI2, ROOT, Worker, arguments, equal_tokens, machine, report, request, save, text_ids)

# name: cache as mneme_worker.cc takes it
CACHES = {
    "bfloat16": "dynamic",
    "bfloat16, static": "static",
    "bfloat16, offloaded": 'dynamic {"offloading": true}',
    "int8": 'dynamic {"backend": "int8"}',
    "int8, static": 'static {"backend": "int8"}',
    "int8, offloaded": 'dynamic {"backend": "int8", "offloading": true}',
    "fp8": 'dynamic {"backend": "fp8"}',
    "quanto 4": 'dynamic {"backend": "quanto"}',
    "hqq 4": 'dynamic {"backend": "hqq"}',
    "kivi 4+4": 'dynamic {"backend": "kivi"}',
    "kivi 4+2": "dynamic " + KIVI,
    "kivi 2+2": "dynamic " + KIVI2,
}
LOSSLESS = ["bfloat16", "bfloat16, static", "bfloat16, offloaded"]
DEPTHS = [8, 1024, 4096, 7936]
DTYPES = ["int8", "bfloat16", "float16", "float32"]
# name of a GGUF format: what llama.cpp's quantizer calls it
GGUF_FORMATS = {"Q4_0": 2, "Q5_0": 8, "Q5_1": 9, "Q8_0": 7, "Q4_K": 14, "Q5_K": 16, "Q6_K": 18}
QUANTIZE = """
import sys, llama_cpp
params = llama_cpp.llama_model_quantize_default_params()
params.ftype, params.allow_requantize, params.pure = int(sys.argv[3]), True, False
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), params))
"""


def rounds_of(options, asks):
    """Answers by name, of rounds in which all take turns. asks: name: a function that asks once."""
    said = {name: [] for name in asks}
    for _ in range(options.rounds):
        for name, ask in asks.items():
            said[name].append(ask())
    return said


def median(answers, figure):
    return round(statistics.median(answer[figure] for answer in answers), 3)


def codecs(options, worker):
    """What a new token costs behind a past, by the cache that holds it."""
    for depth in DEPTHS:
        ask = request(depth, new_tokens=25)
        asks = {name: lambda cache=cache: worker.ask(cache=cache, **ask) for name, cache in CACHES.items()}
        for once in asks.values():  # makes the past
            once()
        said = rounds_of(options, asks)
        for name in LOSSLESS:
            if said[name][0]["ids"] != said["bfloat16"][0]["ids"]:
                sys.exit(f"behind {depth} tokens the cache {name} writes other ids than bfloat16")
        for name, answers in said.items():
            yield {"cache": name, "depth": depth, "step_ms": median(answers, "step_ms"),
                   "cache_bytes": answers[0]["cache_bytes"]}


def prompts(options, worker):
    """Reading a prompt, by the cache that it goes to; and the time to a first token where all but one are known."""
    for n in [128, 512, 2048, 7936]:
        cold = request(n, cold=True)
        asks = {name: lambda cache=CACHES[name]: worker.ask(cache=cache, **cold)
                for name in ["bfloat16", "bfloat16, static", "int8", "kivi 4+2"]}
        for name, answers in rounds_of(options, asks).items():
            yield {"cache": name, "tokens": n, "prefill_ms": median(answers, "prefill_ms")}
    known = request(7936)
    said = rounds_of(options, {"known": lambda: worker.ask(cache="dynamic", **known)})["known"]
    yield {"cache": "bfloat16", "tokens_known": 7935, "prefill_ms": median(said, "prefill_ms")}


def batches(options, worker):
    asks = {rows: lambda rows=rows: worker.ask(cache="dynamic", **request(32, rows=rows, new_tokens=25))
            for rows in [1, 2, 4, 8, 16]}
    for rows, answers in rounds_of(options, asks).items():
        yield {"rows": rows, "step_ms": median(answers, "step_ms")}


def gguf_files(options):
    """The model's weights in other formats, as llama.cpp rounds them again, where it is installed."""
    yield "Q4_1", options.model
    for name, kind in GGUF_FORMATS.items():
        path = ROOT / "build/bench" / f"{pathlib.Path(options.model).stem}.{name}.gguf"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            done = subprocess.run([options.python, "-c", QUANTIZE, options.model, path, str(kind)], capture_output=True,
                                  text=True, check=False)
            if done.returncode:
                path.unlink(missing_ok=True)
                report(left_out=name, reason=done.stderr.strip().splitlines()[-1] if done.stderr else "the quantizer failed")
                continue
        yield name, str(path)


def formats(options, _):
    """Weights: what a step and a prompt cost. All processes wait side by side: some 3 GB of memory."""
    weights = {dtype: (options.model, dtype) for dtype in DTYPES}
    weights |= {name: (path, "auto") for name, path in gguf_files(options)}
    gate = request(256, new_tokens=16, cold=True)
    with contextlib.ExitStack() as stack:
        workers = {}
        for name, (path, dtype) in weights.items():
            workers[name] = Worker([options.worker, path, dtype, str(options.threads)])
            stack.callback(workers[name].close)
        expected = workers["float32"].ask(cache="dynamic", **gate)["ids"]
        equal = {name: equal_tokens(worker.ask(cache="dynamic", **gate)["ids"], expected) for name, worker in workers.items()}
        steps = rounds_of(options, {name: lambda worker=worker: worker.ask(cache="dynamic", **request(8, new_tokens=25))
                                    for name, worker in workers.items()})
        reads = rounds_of(options, {name: lambda worker=worker: worker.ask(cache="dynamic", **request(512, cold=True))
                                    for name, worker in workers.items()})
        for name in workers:
            yield {"weights": name, "equal_tokens": equal[name], "step_ms": median(steps[name], "step_ms"),
                   "prefill_512_ms": median(reads[name], "prefill_ms")}


def operations(options, _):
    """Fork, crop, reordering and append, by length (cache_bench)."""
    if not pathlib.Path(options.cache_bench).exists():
        return report(left_out="operations", reason=f"{options.cache_bench} is not built: make bench")
    for line in subprocess.run([options.cache_bench], capture_output=True, text=True, check=True).stdout.splitlines():
        yield json.loads(line)


def run(options, n_tokens, n_new):
    """A whole run of the program: its JSON, seconds and peak megabytes."""
    return measured(options, ["--ids", ",".join(map(str, text_ids(n_tokens))), "--max-new-tokens", str(n_new)])


def starts(options, _):
    """From nothing to the first token's text, the file in the page cache."""
    seconds = [run(options, 16, 1)[1] for _ in range(options.rounds)]
    yield {"start_to_first_token_s": round(statistics.median(seconds), 3)}


def memory(options, _):
    """Peak memory of a whole run behind prompts of several lengths, beside what weights and cache take."""
    file_mb = pathlib.Path(options.model).stat().st_size / 2**20
    for n in [1024, 4096, 7680]:
        output, _, peak_mb = run(options, n, 16)
        cache_mb = output["cache"]["bytes"] / 2**20
        yield {"tokens": n, "peak_mb": round(peak_mb), "weights_mb": round(file_mb), "cache_mb": round(cache_mb),
               "rest_mb": round(peak_mb - file_mb - cache_mb)}


MEASURES = {"codecs": codecs, "prompts": prompts, "batches": batches, "formats": formats, "operations": operations,
            "starts": starts, "memory": memory}


def stream_gbps(options):
    command = [options.mneme, "bench", "--model", options.model, "--depths", "0", "--repeat", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return round(json.loads(done.stdout)["stream_gbps"]["before"], 2)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--mneme", default=ROOT / "build/mneme")
    parser.add_argument("--cache-bench", default=ROOT / "build/cache_bench")
    parser.add_argument("--measure", default=",".join(MEASURES), help="of " + ", ".join(MEASURES))
    options = parser.parse_args()
    if unknown := set(options.measure.split(",")) - set(MEASURES):
        sys.exit(f"nothing is called {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    about = {"machine": machine(), "model": pathlib.Path(options.model).name, "stream_gbps": [stream_gbps(options)]}
    results = []
    worker = Worker([options.worker, options.model, "auto", str(options.threads)])
    with contextlib.closing(worker):
        for what in options.measure.split(","):
            for figures in MEASURES[what](options, worker):
                report(measure=what, **figures)
                results.append({"measure": what} | figures)
    about["stream_gbps"].append(stream_gbps(options))
    report(stream_gbps=about["stream_gbps"])
    if options.out:
        save(options.out, about | {"alone": results})


if __name__ == "__main__":
    main()
