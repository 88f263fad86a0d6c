#!/usr/bin/env python3
"""Runs clang-tidy on the sources under some folders that have changed since it last passed.

usage: clang_tidy.py <build folder> <folder for stamps> <folder of sources>...

A source counts as unchanged if its own text, that of every project header it includes, its compile command and .clang-tidy
are as they were when it passed.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s*"(mneme/[^"]+)"', re.MULTILINE)


def add_headers(path: Path, seen: dict[Path, bytes]) -> dict[Path, bytes]:
    if path not in seen and path.exists():
        seen[path] = path.read_bytes()
        for name in INCLUDE.findall(seen[path]):
            add_headers(ROOT / name.decode(), seen)
    return seen


def key_of(source: Path, command: str) -> str:
    digest = hashlib.sha256(command.replace(str(ROOT), "").encode())
    digest.update((ROOT / ".clang-tidy").read_bytes())
    for _, text in sorted(add_headers(source, {}).items()):
        digest.update(text)
    return digest.hexdigest()


def tidy(source: Path, build: Path) -> str:
    """Returns what clang-tidy has to say, "" if nothing."""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", build, source], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main(build: Path, stamps: Path, folders: list[str]) -> int:
    stamps.mkdir(parents=True, exist_ok=True)
    due = {}
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for entry in entries:
        source = Path(entry["file"])
        if any(source.is_relative_to(ROOT / folder) for folder in folders):
            stamp = stamps / key_of(source, entry["command"])
            if not stamp.exists():
                due[source] = stamp
    print(f"clang-tidy: {len(due)} sources to look at", flush=True)
    n_bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (source, stamp), complaint in zip(due.items(), pool.map(lambda one: tidy(one, build), due)):
            if complaint:
                print(complaint, flush=True)
                n_bad += 1
            else:
                stamp.touch()
    print(f"clang-tidy: {n_bad} of {len(due)} sources with complaints")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:]))
