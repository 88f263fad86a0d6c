"""What scripts/setup.sh says and leaves behind when it has nothing to do and when it cannot go on. No network is used."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"
TORCH = "torch==2.13.0"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name) / "cache"

    def setup(self, *parts, **environment):
        nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_NO_INDEX": "1"}
        full = {**os.environ, **nowhere, "MNEME_CACHE": str(self.cache), "MNEME_TORCH_KIND": "cpu", **environment}
        return subprocess.run([SCRIPT, *parts], env=full, capture_output=True, text=True, check=False)

    def write(self, path, text):
        file = self.cache / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def assert_fails(self, done, *words):
        self.assertNotEqual(done.returncode, 0)
        last = done.stderr.splitlines()[-1]
        for word in ("setup: ", *words):
            self.assertIn(word, last)

    def test_silent_when_all_is_there(self):
        self.write("libtorch/stamp", f"{TORCH} cpu\n")
        self.write(f"models/{MODEL}", "")
        done = self.setup("libtorch", "model")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_full_wheel_serves_the_cpu_too(self):
        self.write("libtorch/stamp", f"{TORCH} cuda\n")
        self.assertEqual(self.setup("libtorch").returncode, 0)

    def test_another_version_or_kind_is_replaced(self):
        for stamp, kind in ((f"{TORCH}1 cpu", "cpu"), (f"{TORCH} cpu", "cuda"), ("", "cpu")):
            with self.subTest(stamp=stamp, kind=kind):
                self.write("libtorch/stamp", stamp)
                self.assert_fails(self.setup("libtorch", MNEME_TORCH_KIND=kind), "cannot fetch LibTorch")

    def test_a_failed_download_is_one_line_and_leaves_nothing_behind(self):
        self.write("libtorch/stamp", "torch==2.0.0 cpu")
        for part in ("libtorch", "model"):
            self.assert_fails(self.setup(part), "cannot fetch", "PyPI")
        left = sorted(path.name for path in self.cache.iterdir())
        self.assertEqual(left, [".lock", "libtorch"])
        self.assertEqual((self.cache / "libtorch/stamp").read_text(encoding="utf-8"), "torch==2.0.0 cpu")

    def test_a_cache_that_cannot_be_written(self):
        self.cache.write_text("a file", encoding="utf-8")
        self.assert_fails(self.setup("model"), "cannot write", "MNEME_CACHE")

    def test_an_unknown_kind(self):
        self.assert_fails(self.setup("libtorch", MNEME_TORCH_KIND="rocm"), "rocm", "cpu or cuda")

    def test_an_unknown_part(self):
        self.assert_fails(self.setup("everything"), "everything", "parts are")


if __name__ == "__main__":
    unittest.main()
