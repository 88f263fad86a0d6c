"""scripts/check_libraries.sh against what ldd may say."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_libraries.sh"
BASE = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n"


class CheckLibrariesTest(unittest.TestCase):
    def complaint(self, ldd_output):
        with tempfile.TemporaryDirectory() as folder:
            ldd = Path(folder) / "ldd"
            ldd.write_text(f"#!/bin/sh\ncat <<'END'\n{ldd_output}END\n", encoding="utf-8")
            ldd.chmod(0o755)
            path = f"{folder}:{os.environ['PATH']}"
            done = subprocess.run([SCRIPT, "/cache/libtorch", "file.so"], env={**os.environ, "PATH": path},
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1 if done.stderr else 0)
        return done.stderr

    def test_base_libraries_and_our_own_folder_pass(self):
        self.assertEqual(self.complaint(BASE), "")
        self.assertEqual(self.complaint(BASE + "\tlibgomp.so.1 => /cache/libtorch/torch/lib/libgomp.so.1 (0x4)\n"), "")

    def test_dots_in_a_path_are_resolved(self):
        inside = "/cache/libtorch/torch/lib/../../nvidia/cu13/lib/libcudart.so.13"
        self.assertEqual(self.complaint(f"\tlibcudart.so.13 => {inside} (0x4)\n"), "")
        outside = "/cache/libtorch/../other/libcudart.so.13"
        self.assertIn("outside", self.complaint(f"\tlibcudart.so.13 => {outside} (0x4)\n"))

    def test_a_toolkit_of_the_system_does_not_count(self):
        complaint = self.complaint(BASE + "\tlibcudart.so.13 => /usr/local/cuda-13.0/lib/libcudart.so.13 (0x4)\n")
        self.assertEqual(complaint, "file.so: libcudart.so.13 comes from /usr/local/cuda-13.0/lib/libcudart.so.13, "
                                    "which is outside /cache/libtorch\n")

    def test_the_openmp_of_the_system_does_not_count(self):
        self.assertIn("libgomp", self.complaint("\tlibgomp.so.1 => /lib/x86_64-linux-gnu/libgomp.so.1 (0x4)\n"))

    def test_a_missing_library(self):
        self.assertEqual(self.complaint("\tlibcupti.so.13 => not found\n"), "file.so: libcupti.so.13 is not found\n")

    def test_the_driver_may_be_anywhere_or_nowhere(self):
        self.assertEqual(self.complaint("\tlibcuda.so.1 => not found\n"), "")
        self.assertEqual(self.complaint("\tlibcuda.so.1 => /usr/lib/libcuda.so.1 (0x4)\n"), "")


if __name__ == "__main__":
    unittest.main()
