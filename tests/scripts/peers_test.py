"""benchmarks/peers/compare.py and benchmarks/report.py, with workers that only pretend to compute."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
sys.path.insert(0, str(BENCHMARKS / "peers"))
import random_model
import report
import worker

# Called as mneme_worker with <model> <dtype> <threads>, or as the peers' Python with a script before those.
PRETENDER = """#!{python}
import json, sys
library = sys.argv[1] if sys.argv[1].endswith("_worker.py") else "mneme"
if "onnxruntime" in library:
    sys.exit("not installed")
print(json.dumps({{"version": "1", "load_ms": 2.0}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    first = 8 if asked["cache"] == "q4_0 flash" else 7
    said = {{"ids": [first] * asked["new_tokens"], "prefill_ms": 10.0, "step_ms": 4.0 if "llama" in library else 2.0, "peak_mb": 5.0}}
    if asked["cache"] == "q8_0 flash":
        said = {{"unsupported": "no such cache"}}
    print(json.dumps(said), flush=True)
"""


class Pretending(unittest.TestCase):
    """A folder with a program that only pretends."""

    program = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.pretender = os.path.join(self.folder.name, "pretender")
        Path(self.pretender).write_text(self.program.format(python=sys.executable), encoding="utf-8")
        os.chmod(self.pretender, 0o755)


class CompareTest(Pretending):
    program = PRETENDER

    def setUp(self):
        super().setUp()
        self.out = os.path.join(self.folder.name, "deep", "peers.json")

    def compare(self, *more):
        command = [sys.executable, BENCHMARKS / "peers" / "compare.py", "--worker", self.pretender, "--python", self.pretender]
        return subprocess.run([*command, "--rounds", "3", "--out", self.out, *more], capture_output=True, text=True, check=False)

    def test_contenders_that_fail_the_gate_are_left_out_and_the_others_measured(self):
        done = self.compare("--contenders", "mneme,llama.cpp,onnxruntime", "--measure", "decode,prefill", "--points", "8,64")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn({"left_out": "llama.cpp q8_0 cache", "reason": "no such cache"}, lines)
        self.assertTrue(any(line.get("left_out") == "onnxruntime" for line in lines), lines)
        self.assertIn({"gate": "llama.cpp q4_0 cache", "equal_tokens": 0, "of": 48}, lines)
        with open(self.out, encoding="utf-8") as file:
            run = json.load(file)
        self.assertEqual(run["gate"]["llama.cpp"], 48)
        names = {result["contender"] for result in run["results"]}
        self.assertLessEqual({"mneme", "mneme static", "llama.cpp", "llama.cpp flash"}, names)
        self.assertFalse(names & {"llama.cpp q8_0 cache", "llama.cpp q4_0 cache", "onnxruntime", "openvino"})
        for result in run["results"]:
            self.assertEqual(len(result["all_ms"]), 3)
        self.check_report(run)

    def test_names_are_beginnings_or_whole(self):
        for asked, expected in (("llama.cpp f", {"llama.cpp flash"}), ("=llama.cpp,=mneme", {"llama.cpp", "mneme"})):
            done = self.compare("--contenders", asked, "--measure", "decode", "--points", "8")
            self.assertEqual(done.returncode, 0, done.stderr)
            gates = {json.loads(line)["gate"] for line in done.stdout.splitlines() if '"gate"' in line}
            self.assertEqual(gates - {"mneme float32"}, expected)

    def test_files_of_one_machine_are_one_report(self):
        run = {"model": "m", "machine": {"cpu": "c", "threads": 2}, "gate": {}}
        paths = []
        for at, cpu in ((8, "c"), (64, "c"), (64, "other")):
            paths.append(os.path.join(self.folder.name, f"{at}.{cpu}.json"))
            results = [{"measure": "decode", "at": at, "contender": name, "ms": 2.0} for name in ("mneme", "llama.cpp")]
            with open(paths[-1], "w", encoding="utf-8") as file:
                json.dump(run | {"machine": {"cpu": cpu, "threads": 2}, "results": results}, file)
        docs = self.folder.name
        command = [sys.executable, BENCHMARKS / "report.py", "--docs", docs]
        done = subprocess.run([*command, *paths[:2]], capture_output=True, text=True, check=True)
        self.assertIn("| decode | 8 | 64 |", done.stdout)
        self.assertTrue(os.path.exists(os.path.join(docs, "bench_decode.svg")))
        done = subprocess.run([*command, *paths[1:]], capture_output=True, text=True, check=False)
        self.assertIn("another model or machine", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def check_report(self, run):
        text = report.table(run["results"], "decode")
        self.assertIn("| mneme | 500 | 500 |", text)
        self.assertIn("| llama.cpp | 250 (×2.0) | 250 (×2.0) |", text)
        decode = [result for result in run["results"] if result["measure"] == "decode"]
        self.assertIn("Writing, by tokens so far", report.picture(decode, "decode", "a machine"))

    def test_float32_is_measured_where_it_is_named(self):
        for arguments, named in (((), False), (("--contenders", "mneme float32"), True)):
            done = self.compare("--measure", "prefill", "--points", "8", *arguments)
            names = {line.get("contender") for line in map(json.loads, done.stdout.splitlines())}
            self.assertEqual("mneme float32" in names, named, done.stdout)

    def test_unknown_names_are_refused(self):
        for arguments, unknown in ((("--contenders", "nobody"), "nobody"), (("--measure", "sleep"), "sleep"),
                                   (("--contenders", "=mneme,=mneme int8"), "=mneme int8")):
            done = self.compare(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"nothing is called {unknown};", done.stderr)


# What alone.py calls: mneme_worker, mneme bench, mneme generate, cache_bench and a Python without llama.cpp.
ALONE = """#!{python}
import json, os, sys
if sys.argv[1:2] == ["-c"]:
    sys.exit("no module named llama_cpp")
elif sys.argv[1:2] == ["bench"]:
    print(json.dumps({{"stream_gbps": {{"before": 15.0}}}}))
elif sys.argv[1:2] == ["generate"]:
    print(json.dumps({{"cache": {{"bytes": 2**20}}}}))
elif len(sys.argv) == 1:
    print(json.dumps({{"cache": "bfloat16", "tokens": 1024, "operation": "fork", "us": 2.5}}))
else:
    print(json.dumps({{"version": "1", "load_ms": 2.0}}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        first = 8 if os.environ.get("DIFFERS") and asked["cache"] == "static" else 7
        said = {{"ids": [first] * asked["new_tokens"], "prefill_ms": 10.0, "step_ms": 2.0 if "int8" in asked["cache"] else 4.0}}
        print(json.dumps(said | {{"cache_bytes": 1000, "peak_mb": 5.0}}), flush=True)
"""


class AloneTest(Pretending):
    program = ALONE

    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.folder.name, "small.gguf")
        Path(self.model).write_bytes(bytes(1000))

    def run_alone(self, *more, **environment):
        programs = [f"--{name}={self.pretender}" for name in ("mneme", "worker", "cache-bench", "python")]
        command = [sys.executable, BENCHMARKS / "alone.py", *programs, "--model", self.model, "--rounds", "3", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)

    def test_all_is_measured_and_drawn(self):
        out = os.path.join(self.folder.name, "deep", "alone.json")
        done = self.run_alone("--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn({"left_out": "Q8_0", "reason": "no module named llama_cpp"}, lines)
        measures = ["codecs", "prompts", "batches", "formats", "operations", "starts", "memory"]
        self.assertEqual(list(dict.fromkeys(line["measure"] for line in lines if "measure" in line)), measures)
        command = [sys.executable, BENCHMARKS / "report.py", "--docs", self.folder.name, out]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertIn("| codecs, step_ms | 8 | 1,024 | 4,096 | 7,936 |", said)
        self.assertIn("| int8 | 2.0 | 2.0 | 2.0 | 2.0 |", said)
        self.assertIn("| bfloat16 | 1,024 | fork | 2.5 |", said)
        drawn = Path(self.folder.name, "bench_codecs.svg").read_text(encoding="utf-8")
        self.assertIn("kivi 4+2", drawn)

    def test_lossless_caches_that_differ_end_it(self):
        done = self.run_alone("--measure", "codecs", DIFFERS="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the cache bfloat16, static writes other ids than bfloat16", done.stderr)

    def test_unknown_measures_are_refused(self):
        done = self.run_alone("--measure", "sleep")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing is called sleep;", done.stderr)


class RandomModelTest(unittest.TestCase):
    def test_every_shape_has_a_layout_and_tensors_of_its_own_names(self):
        for name, config in random_model.SHAPES.items():
            tensors = dict(random_model.tensors(config))
            self.assertEqual(len(tensors), len(list(random_model.tensors(config))), name)
            layers = {key.split(".")[2] for key in tensors if ".layers." in key}
            self.assertEqual(len(layers), config["num_hidden_layers"], name)
            self.assertEqual("lm_head.weight" in tensors, not config["tie_word_embeddings"], name)


class Counting(worker.Peer):
    """Writes its number of forks; a state is the list of what was read."""

    n_read = 0

    def read(self, ids, rows, cache, n_new):
        if cache == "none":
            raise worker.Unsupported("none")
        self.n_read += 1
        return list(ids)

    def fork(self, state):
        return list(state)

    def write(self, state, ids, n_new):
        state += ids
        return [len(state)] * n_new, [float(i) for i in range(n_new)]


class WorkerTest(unittest.TestCase):
    def test_a_past_is_made_once_for_each_cache_and_never_changed(self):
        peer, kept = Counting(), {}
        ask = {"ids": [1, 2, 3], "rows": 1, "new_tokens": 5, "cold": False}
        for cache in ("a", "b", "a", "b", "a"):
            self.assertEqual(worker.answer(peer, kept, ask | {"cache": cache})["ids"], [3] * 5)
        self.assertEqual(peer.n_read, 2)
        self.assertEqual(worker.answer(peer, kept, ask | {"cache": "a", "cold": True})["ids"], [3] * 5)
        self.assertEqual(worker.answer(peer, kept, ask | {"cache": "a", "ids": [1, 2]})["ids"], [2] * 5)
        self.assertEqual(peer.n_read, 4)
        self.assertEqual(worker.answer(peer, kept, ask | {"cache": "a"})["step_ms"], 1e3)
        with self.assertRaises(worker.Unsupported):
            worker.answer(peer, kept, ask | {"cache": "none"})


if __name__ == "__main__":
    unittest.main()
