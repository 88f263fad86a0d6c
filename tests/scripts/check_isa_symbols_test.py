"""What scripts/check_isa_symbols.py lets pass and what it does not."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from check_isa_symbols import violations

TABLE = "0000000000000000 D mneme::kernels::kAvx512Table\n"


class CheckIsaSymbolsTest(unittest.TestCase):
    def test_own_lanes_and_the_table_pass(self):
        listing = (TABLE + "0000 W void mneme::kernels::attend<mneme::kernels::LanesOfAvx512<false>, Format>(long)\n"
                   + "0000 V DW.ref.__gxx_personality_v0\n")
        self.assertEqual(violations("avx512", listing), [])
        self.assertEqual(violations("amx", "0000 W mneme::kernels::LanesOfAvx512<true>::sum() const\n"), [])

    def test_shared_inline_functions_do_not(self):
        for shared in ["float const& std::min<float>(float const&, float const&)",
                       "mneme::kernels::padded_inner(mneme::DType, long)",
                       "void mneme::kernels::attend<mneme::kernels::LanesAvx2, Format>(long)",
                       "mneme::kernels::LanesOfAvx512<true>::sum() const"]:
            found = violations("avx512", TABLE + f"0000 W {shared}\n")
            self.assertEqual(len(found), 1, shared)
            self.assertIn(shared, found[0])


if __name__ == "__main__":
    unittest.main()
