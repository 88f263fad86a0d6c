#!/usr/bin/env python3
"""Holds the objects of kernels to their own symbols.

usage: check_isa_symbols.py NAME=OBJECT ...    e.g. avx2=isa_avx2.cc.o; exit status 1 and one line for each violation

The linker keeps one copy of an inline function that several objects define. If that copy was compiled for AVX-512, a
processor without it dies in code that has nothing to do with kernels. So an object that is compiled for an instruction
set may define, for others to see, only its table and what is made of its own Lanes type.
"""

import re
import subprocess
import sys

# AMX's object works on the lanes of AVX-512 with VNNI; whatever needs tiles is made of a type that no other file can
# name.
LANES = {"scalar": r"LanesScalar\b", "avx2": r"LanesAvx2\b", "avx512": "LanesOfAvx512<false>",
         "avx512vnni": "LanesOfAvx512<true>", "amx": "LanesOfAvx512<true>"}
TABLES = {"scalar": "kScalarTable", "avx2": "kAvx2Table", "avx512": "kAvx512Table", "avx512vnni": "kAvx512VnniTable",
          "amx": "kAmxTable"}
# Data that GCC makes for exception tables; the same address in every object.
HARMLESS = {"DW.ref.__gxx_personality_v0"}


def violations(name: str, listing: str) -> list[str]:
    """listing: what `nm -C --defined-only --extern-only` prints of the object."""
    own = re.compile(rf"\b({LANES[name]}|{TABLES[name]}\b)")
    problems = []
    for line in listing.splitlines():
        parts = line.split(maxsplit=2)
        if len(parts) == 3 and parts[2] not in HARMLESS and not own.search(parts[2]):
            problems.append(f"isa_{name}.cc: {parts[2]} could be linked into code for other processors; "
                            "make it a template over Lanes, always_inline, or local to the file")
    return problems


def main(arguments: list[str]) -> int:
    problems = []
    for argument in arguments:
        name, path = argument.split("=", 1)
        listing = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", path], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        if TABLES[name] not in listing:
            problems.append(f"{path}: defines no {TABLES[name]}; is it the object of isa_{name}.cc?")
        problems += violations(name, listing)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
