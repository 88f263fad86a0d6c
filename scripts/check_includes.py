#!/usr/bin/env python3
"""Holds the tree to its architecture: the direction of includes, a test beside every source, files of one idea.

usage: check_includes.py [folder of the project]        one line for each violation; exit status 1 if there is any
"""

import re
import sys
from pathlib import Path

# A layer may include itself and the layers named here.
BELOW = {
    "base": [],
    "text": ["base"],
    "audio": ["base"],
    "kernels": ["base"],
    "quant": ["kernels", "base"],
    "ops": ["quant", "kernels", "base"],
    "cache": ["ops", "quant", "kernels", "base"],
    "models": ["cache", "ops", "quant", "kernels", "base"],
    "generate": ["models", "cache", "ops", "quant", "kernels", "text", "audio", "base"],
    "chat": ["generate", "models", "cache", "ops", "quant", "kernels", "text", "audio", "base"],
    "serve": ["chat", "generate", "models", "cache", "ops", "quant", "kernels", "text", "audio", "base"],
    "tasks": ["serve", "chat", "generate", "models", "cache", "ops", "quant", "kernels", "text", "audio", "base"],
    "cli": ["tasks", "serve", "chat", "generate", "models", "cache", "ops", "quant", "kernels", "text", "audio", "base"],
}
WITHOUT_ATEN = {"base", "text", "audio", "kernels", "cli"}
MAX_LINES = 600

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
MEASURED = {".h", ".cc", ".py", ".sh", ".cmake"}
MEASURED_FOLDERS = ["mneme", "tests", "examples", "benchmarks", "scripts", "cmake"]


def check_file(layer: str, path: Path, shown: Path) -> list[str]:
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, target = match.groups()
        where = f"{shown}:{number}"
        parts = target.split("/")
        if parts[0] in {"ATen", "c10", "torch"} and layer in WITHOUT_ATEN:
            problems.append(f"{where}: {layer} works on raw pointers and knows no ATen, but includes <{target}>")
        if parts[0] != "mneme":
            if bracket == '"':
                problems.append(f'{where}: "{target}" must be spelled from the root: "mneme/<layer>/..."')
            continue
        if len(parts) < 3:
            problems.append(f"{where}: {target} is for users of the library; include the header that you need")
        elif parts[1] not in BELOW:
            problems.append(f"{where}: {target} is in no known layer ({', '.join(BELOW)})")
        elif parts[1] != layer and parts[1] not in BELOW[layer]:
            below = ", ".join(BELOW[layer]) or "nothing"
            problems.append(f"{where}: {layer} may include {below}, but not {parts[1]} ({target})")
    return problems


def check_layers(root: Path) -> list[str]:
    problems = []
    for folder in sorted(path for path in (root / "mneme").iterdir() if path.is_dir()):
        if folder.name not in BELOW:
            problems.append(f"mneme/{folder.name}: no such layer; it needs a row in scripts/check_includes.py")
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".h", ".cc"}:
                problems += check_file(folder.name, path, path.relative_to(root))
    return problems


def read_exceptions(root: Path, problems: list[str]) -> set[str]:
    """tests/covered_elsewhere.txt: source, the test that covers it, the reason."""
    exceptions = set()
    listing = root / "tests" / "covered_elsewhere.txt"
    for line in listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []:
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(maxsplit=2)
        if len(fields) < 3:
            problems.append(f"tests/covered_elsewhere.txt: \"{line}\" must be: source, test, reason")
            continue
        source, test, _ = fields
        if not (root / source).exists():
            problems.append(f"tests/covered_elsewhere.txt: {source} does not exist")
        if not (root / test).exists():
            problems.append(f"tests/covered_elsewhere.txt: {test}, which is to cover {source}, does not exist")
        exceptions.add(source)
    return exceptions


def check_tests(root: Path) -> list[str]:
    problems = []
    exceptions = read_exceptions(root, problems)
    for source in sorted((root / "mneme").glob("*/*.cc")):
        shown = source.relative_to(root).as_posix()
        test = root / "tests" / source.parent.name / f"{source.stem}_test.cc"
        if test.exists():
            if shown in exceptions:
                problems.append(f"tests/covered_elsewhere.txt: {shown} has a test of its own; remove the line")
        elif shown not in exceptions:
            problems.append(f"{shown}: no {test.relative_to(root)}, and no line in tests/covered_elsewhere.txt")
    return problems


def check_sizes(root: Path) -> list[str]:
    problems = []
    for folder in MEASURED_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in MEASURED or not path.is_file():
                continue
            count = len(path.read_bytes().splitlines())
            if count > MAX_LINES:
                problems.append(f"{path.relative_to(root)}: {count} lines; past {MAX_LINES} it is two files")
    return problems


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    problems = check_layers(root) + check_tests(root) + check_sizes(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
