"""Each rule of scripts/check_includes.py, broken on purpose in a tree of its own."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_includes


class CheckIncludesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "mneme").mkdir()

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def problems(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = check_includes.main([self.root])
        lines = output.getvalue().splitlines()
        self.assertEqual(status, 1 if lines else 0)
        return lines

    def assert_only_problem(self, *parts):
        lines = self.problems()
        self.assertEqual(len(lines), 1, lines)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_downward_includes_pass(self):
        self.write("mneme/cli/run.h", '#include "mneme/generate/a.h"\n#include "mneme/base/b.h"\n#include <vector>\n')
        self.write("mneme/generate/a.h", '#include "mneme/text/c.h"\n#include "mneme/models/d.h"\n')
        self.write("mneme/cache/e.h", '#include <ATen/ATen.h>\n#include "mneme/cache/f.h"\n')
        self.write("mneme/mneme.h", '#include "mneme/generate/a.h"\n')
        self.assertEqual(self.problems(), [])

    def test_upward_include(self):
        self.write("mneme/cache/a.h", '\n#include "mneme/models/config.h"\n')
        self.assert_only_problem("mneme/cache/a.h:2", "cache may include", "not models")

    def test_models_do_not_know_text(self):
        self.write("mneme/models/a.h", '#include "mneme/text/tokenizer.h"\n')
        self.assert_only_problem("models may include", "not text")

    def test_text_knows_base_alone(self):
        self.write("mneme/text/a.h", '#  include "mneme/kernels/k.h"\n')
        self.assert_only_problem("text may include base, but not kernels")

    def test_angle_brackets_hide_nothing(self):
        self.write("mneme/base/a.h", "#include <mneme/ops/linear.h>\n")
        self.assert_only_problem("base may include nothing, but not ops")

    def test_aten_stays_out_of_the_lowest_layers(self):
        for layer in ("base", "text", "kernels"):
            for header in ("ATen/ATen.h", "c10/util/Half.h", "torch/torch.h"):
                with self.subTest(layer=layer, header=header):
                    self.write(f"mneme/{layer}/a.h", f"#include <{header}>\n")
                    self.assert_only_problem(f"{layer} works on raw pointers", header)
            (self.root / f"mneme/{layer}/a.h").unlink()

    def test_umbrella_header_is_for_users(self):
        self.write("mneme/cli/a.h", '#include "mneme/mneme.h"\n')
        self.assert_only_problem("for users of the library")

    def test_relative_include(self):
        self.write("mneme/base/a.h", '#include "error.h"\n')
        self.assert_only_problem("spelled from the root")

    def test_unknown_layer(self):
        self.write("mneme/utils/a.h")
        self.write("mneme/base/a.h", '#include "mneme/common/x.h"\n')
        lines = self.problems()
        self.assertEqual(len(lines), 2, lines)

    def test_source_without_test(self):
        self.write("mneme/base/a.cc")
        self.assert_only_problem("mneme/base/a.cc", "tests/base/a_test.cc")

    def test_source_with_test(self):
        self.write("mneme/base/a.cc")
        self.write("tests/base/a_test.cc")
        self.assertEqual(self.problems(), [])

    def test_source_covered_elsewhere(self):
        self.write("mneme/base/a.cc")
        self.write("tests/base/b_test.cc")
        self.write("tests/covered_elsewhere.txt", "# comment\n\nmneme/base/a.cc tests/base/b_test.cc the same table\n")
        self.assertEqual(self.problems(), [])

    def test_listed_test_must_exist(self):
        self.write("mneme/base/a.cc")
        self.write("tests/covered_elsewhere.txt", "mneme/base/a.cc tests/base/b_test.cc the same table\n")
        self.assert_only_problem("tests/base/b_test.cc", "does not exist")

    def test_listed_source_must_exist(self):
        self.write("tests/base/b_test.cc")
        self.write("tests/covered_elsewhere.txt", "mneme/base/a.cc tests/base/b_test.cc the same table\n")
        self.assert_only_problem("mneme/base/a.cc does not exist")

    def test_a_line_without_reason_counts_for_nothing(self):
        self.write("mneme/base/a.cc")
        self.write("tests/base/b_test.cc")
        self.write("tests/covered_elsewhere.txt", "mneme/base/a.cc tests/base/b_test.cc\n")
        self.assertEqual(len(self.problems()), 2)

    def test_needless_line(self):
        self.write("mneme/base/a.cc")
        self.write("tests/base/a_test.cc")
        self.write("tests/covered_elsewhere.txt", "mneme/base/a.cc tests/base/a_test.cc no reason left\n")
        self.assert_only_problem("remove the line")

    def test_long_file(self):
        self.write("mneme/base/a.h", "\n" * 600)
        self.assertEqual(self.problems(), [])
        self.write("mneme/base/a.h", "\n" * 601)
        self.assert_only_problem("mneme/base/a.h: 601 lines")


if __name__ == "__main__":
    unittest.main()
