#!/usr/bin/env python3
"""Mneme beside other libraries: the same model, token ids and machine, one run, rounds that take turns.

    compare.py [--worker build/mneme_worker] [--out build/bench/peers.json] [--measure decode,prefill,..] [--peers ..]

setup.sh installs the peers. Every line of CONTENDERS is a library with weights in a dtype and a cache; each library is a
process of its own that waits while others compute (worker.py). One JSON line a figure on stdout: the median of all
rounds; the file holds the rounds too. Before any speed a gate: how many of 16 greedy tokens behind each of three real
texts agree with Mneme's in float32 (one place alone may be as good as a tie); with less than a third of them a contender
is not measured.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("MNEME_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mneme")
MODEL = CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
KIVI = '{"backend": "kivi", "nbits_key": 4, "nbits_value": 2}'
KIVI2 = '{"backend": "kivi", "nbits": 2}'

# name: library, dtype, cache
CONTENDERS = {
    "mneme": ("mneme", "auto", "dynamic"),
    "mneme static": ("mneme", "auto", "static"),
    "mneme int8 cache": ("mneme", "auto", 'dynamic {"backend": "int8"}'),
    "mneme kivi 4+2 cache": ("mneme", "auto", "dynamic " + KIVI),
    "mneme kivi 2+2 cache": ("mneme", "auto", "dynamic " + KIVI2),
    "mneme bfloat16": ("mneme", "bfloat16", "dynamic"),
    "llama.cpp": ("llama.cpp", "auto", "f16"),
    "llama.cpp flash": ("llama.cpp", "auto", "f16 flash"),
    "llama.cpp q8_0 cache": ("llama.cpp", "auto", "q8_0 flash"),
    "llama.cpp q4_0 cache": ("llama.cpp", "auto", "q4_0 flash"),
    "openvino": ("openvino", "auto", "u8"),
    "onnxruntime": ("onnxruntime", "auto", "dynamic"),
    "mneme float32": ("mneme", "float32", "dynamic"),
    "transformers bfloat16": ("transformers", "bfloat16", "dynamic"),
    "transformers float32": ("transformers", "float32", "dynamic"),
    "transformers packed": ("transformers", "auto", "dynamic"),
    "transformers quanto cache": ("transformers", "bfloat16", "quanto 4"),
}
REFERENCE = ("mneme", "float32", "dynamic")
GATE_TOKENS = 16
GATE_PLACES = (256, 400, 512)


class Worker:
    """A library's process, which loads its model when it starts."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.line(command)

    def line(self, command):
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {self.process.wait()}")
        return json.loads(text)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.line(self.process.args)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Workers:
    """All processes, started when they are first asked for. One that cannot start is reported once and left out."""

    def __init__(self, options):
        self.options, self.running = options, {}

    def of(self, contender):
        library, dtype, _ = contender
        if (library, dtype) not in self.running:
            command = [self.options.worker]
            if library != "mneme":
                command = [self.options.python, HERE / f"{library.replace('.', '_')}_worker.py"]
            try:
                worker = Worker([*command, self.options.model, dtype, str(self.options.threads)])
                report(loaded=library, dtype=dtype, version=worker.about["version"], load_ms=worker.about["load_ms"])
            except (RuntimeError, OSError) as error:
                report(left_out=library, dtype=dtype, reason=str(error))
                worker = None
            self.running[library, dtype] = worker
        return self.running[library, dtype]

    def close(self):
        for worker in filter(None, self.running.values()):
            worker.close()


def report(**line):
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in line.items()}
    print(json.dumps(rounded), flush=True)


def text_ids(n):
    """n ids of a real text, again from its start where it ends."""
    with open(ROOT / "tests/golden/smollm2.json", encoding="utf-8") as file:
        ids = json.load(file)["nll_ids"]
    return (ids * (n // len(ids) + 1))[:n]


def equal_tokens(ids, expected):
    """How many agree before the first that does not."""
    return next((i for i, pair in enumerate(zip(ids, expected)) if pair[0] != pair[1]), GATE_TOKENS)


def gate(workers, names):
    """The contenders that write what the reference writes, and how far."""
    asks = [request(place, new_tokens=GATE_TOKENS, cold=True) for place in GATE_PLACES]
    expected = [workers.of(REFERENCE).ask(cache=REFERENCE[2], **ask)["ids"] for ask in asks]
    most = GATE_TOKENS * len(GATE_PLACES)
    agreeing = {}
    for name in names:
        worker = workers.of(CONTENDERS[name])
        if worker is None:
            continue
        said = [worker.ask(cache=CONTENDERS[name][2], **ask) for ask in asks]
        if "unsupported" in said[0]:
            report(left_out=name, reason=said[0]["unsupported"])
            continue
        equal = sum(equal_tokens(one["ids"], ids) for one, ids in zip(said, expected))
        report(gate=name, equal_tokens=equal, of=most)
        if equal * 3 >= most:
            agreeing[name] = equal
    return agreeing


def request(n_tokens, rows=1, new_tokens=1, cold=False):
    return {"ids": text_ids(n_tokens), "rows": rows, "new_tokens": new_tokens, "cold": cold}


# What is measured: the points, what is asked for at one, and the figure that counts.
MEASURES = {
    "decode": ([8, 1024, 4096, 7936], lambda n: request(n, new_tokens=25), "step_ms"),
    "prefill": ([128, 512, 2048, 7936], lambda n: request(n, cold=True), "prefill_ms"),
    "reuse": ([7936], lambda n: request(n), "prefill_ms"),
    "batch": ([1, 2, 4, 8, 16], lambda n: request(32, rows=n, new_tokens=25), "step_ms"),
}


def measure(workers, names, what, points, rounds):
    _, request_at, figure = MEASURES[what]
    for point in points:
        ask, times, peaks = request_at(point), {name: [] for name in names}, {}
        if not ask["cold"]:  # the past is made before the rounds
            for name in names:
                workers.of(CONTENDERS[name]).ask(cache=CONTENDERS[name][2], **ask)
        for _ in range(rounds):
            for name in names:
                said = workers.of(CONTENDERS[name]).ask(cache=CONTENDERS[name][2], **ask)
                if "unsupported" not in said:
                    times[name].append(said[figure])
                    peaks[name] = said["peak_mb"]
        for name in filter(times.get, names):
            median = statistics.median(times[name])
            report(measure=what, at=point, contender=name, ms=median, rounds=len(times[name]))
            figures = {"ms": median, "all_ms": times[name], "peak_mb": peaks[name]}
            yield {"measure": what, "at": point, "contender": name} | figures


def machine():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "threads": len(names)}


def arguments(about):
    """What every script takes that measures with workers."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", default=ROOT / "build/mneme_worker", help="the program built from mneme_worker.cc")
    parser.add_argument("--python", default=CACHE / "peers/venv/bin/python", help="that of the peers")
    parser.add_argument("--model", default=MODEL, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="a JSON file for report.py")
    return parser


def save(path, content):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--measure", default=",".join(MEASURES), help="of " + ", ".join(MEASURES))
    parser.add_argument("--points", help="instead of each measure's own, as in 512,2048")
    parser.add_argument("--contenders", help="what names begin with, or = and a whole name; all but float32 ones")
    options = parser.parse_args()
    unknown = set(options.measure.split(",")) - set(MEASURES)
    names = [name for name in CONTENDERS if "float32" not in name]
    if options.contenders:
        chosen = {asked: [name for name in CONTENDERS if name.startswith(asked) or asked == f"={name}"]
                  for asked in options.contenders.split(",")}
        names = [name for name in CONTENDERS if any(name in some for some in chosen.values())]
        unknown |= {asked for asked, some in chosen.items() if not some}
    if unknown:
        offered = f"{', '.join(MEASURES)} of {', '.join(CONTENDERS)}"
        sys.exit(f"nothing is called {', '.join(sorted(unknown))}; there are {offered}")
    with contextlib.closing(Workers(options)) as workers:
        agreeing = gate(workers, names)
        results = []
        for what in options.measure.split(","):
            points = [int(point) for point in options.points.split(",")] if options.points else MEASURES[what][0]
            results += measure(workers, list(agreeing), what, points, options.rounds)
    if options.out:
        about = {"machine": machine(), "model": os.path.basename(options.model), "gate": agreeing}
        save(options.out, about | {"results": results})


if __name__ == "__main__":
    main()
