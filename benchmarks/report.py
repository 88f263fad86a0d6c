#!/usr/bin/env python3
"""Draws what peers/compare.py measured.

    report.py build/bench/peers.json .. [--docs docs]

Writes bench_decode.svg, bench_prefill.svg and bench_batch.svg to the folder, those that there are figures for, and
prints a table: tokens a second of every contender, and how many times as fast Mneme is. Several files are one report:
of the same model and machine, measured at different points.
"""
import argparse
import json
import os
import sys

import plot

# Lines of the pictures: those that people choose between. The table has all.
SHOWN = ["mneme", "mneme kivi 4+2 cache", "llama.cpp", "llama.cpp flash", "openvino", "transformers bfloat16"]
PICTURES = {
    "decode": ("Writing, by tokens so far", "tokens so far"),
    "prefill": ("Reading a prompt", "tokens of the prompt"),
    "batch": ("Writing several texts at once", "texts"),
}


def tokens_a_second(result):
    count = {"decode": 1, "reuse": 1, "batch": result["at"], "prefill": result["at"]}[result["measure"]]
    return count * 1e3 / result["ms"]


def picture(figures, what, subtitle):
    title, label = PICTURES[what]
    lines = []
    for name in SHOWN:
        points = [[r["at"], round(tokens_a_second(r), 1)] for r in figures if r["contender"] == name]
        if points:
            lines.append({"name": name, "points": points})
    ticks = sorted({point[0] for line in lines for point in line["points"]})
    return plot.draw({
        "title": title,
        "subtitle": subtitle,
        "x": {"label": label, "log": True, "ticks": ticks},
        "y": {"label": "tokens a second", "log": True},
        "lines": lines,
    })


def table(results, what):
    """Markdown: a row for each contender, a column for each point."""
    figures = [r for r in results if r["measure"] == what]
    points = sorted({r["at"] for r in figures})
    ours = {r["at"]: tokens_a_second(r) for r in figures if r["contender"] == "mneme"}
    rows = [f"| {what} | " + " | ".join(f"{point:,}" for point in points) + " |", "|---" * (len(points) + 1) + "|"]
    for name in dict.fromkeys(r["contender"] for r in figures):
        speeds = {r["at"]: tokens_a_second(r) for r in figures if r["contender"] == name}
        cells = []
        for point in points:
            cell = f"{speeds[point]:,.0f}" if point in speeds else "–"
            if point in speeds and point in ours and not name.startswith("mneme"):
                cell += f" (×{ours[point] / speeds[point]:.1f})"
            cells.append(cell)
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--docs", default="docs")
    options = parser.parse_args()
    runs = []
    for path in options.results:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    run = runs[0] | {"results": [r for one in runs for r in one["results"]]}
    for path, one in zip(options.results, runs):
        if (one["model"], one["machine"]) != (run["model"], run["machine"]):
            sys.exit(f"{path} is of another model or machine than {options.results[0]}; draw them one by one")
    measures = [what for what in dict.fromkeys(r["measure"] for r in run["results"])]
    if not measures:
        sys.exit(f"{', '.join(options.results)} holds no figures")
    subtitle = f"{run['model']}, {run['machine']['cpu']}, {run['machine']['threads']} threads; medians of interleaved rounds"
    for what in measures:
        print(table(run["results"], what) + "\n")
        figures = [r for r in run["results"] if r["measure"] == what]
        if what in PICTURES and any(r["contender"] in SHOWN for r in figures):
            with open(os.path.join(options.docs, f"bench_{what}.svg"), "w", encoding="utf-8") as file:
                file.write(picture(figures, what, subtitle))


if __name__ == "__main__":
    main()
