#!/usr/bin/env python3
"""Draws what peers/compare.py and alone.py measured.

    report.py build/bench/peers.json build/bench/alone.json .. [--docs docs]

Writes bench_decode.svg, bench_prefill.svg, bench_batch.svg and bench_codecs.svg to the folder, those that there are
figures for, and prints tables: tokens a second of every contender, and how many times as fast Mneme is; what alone.py
measured, in its own units. Several files are one report: of the same model and machine, measured at different points.
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


# Of alone.py: what becomes a row, a column and a cell; other measures are listed as they are.
CROSSED = {"codecs": ("cache", "depth", "step_ms"), "prompts": ("cache", "tokens", "prefill_ms")}
CODECS_SHOWN = ["bfloat16", "fp8", "int8", "kivi 4+4", "kivi 4+2", "kivi 2+2"]


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


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(f"{x:,}" if isinstance(x, (int, float)) else x for x in line) + " |" for line in lines)


def table(results, what):
    """Markdown: a row for each contender, a column for each point."""
    figures = [r for r in results if r["measure"] == what]
    points = sorted({r["at"] for r in figures})
    ours = {r["at"]: tokens_a_second(r) for r in figures if r["contender"] == "mneme"}
    rows = []
    for name in dict.fromkeys(r["contender"] for r in figures):
        speeds = {r["at"]: tokens_a_second(r) for r in figures if r["contender"] == name}
        cells = []
        for point in points:
            cell = f"{speeds[point]:,.0f}" if point in speeds else "–"
            if point in speeds and point in ours and not name.startswith("mneme"):
                cell += f" (×{ours[point] / speeds[point]:.1f})"
            cells.append(cell)
        rows.append([name, *cells])
    return markdown([what, *points], rows)


def table_alone(figures, what):
    """What alone.py measured: crossed, or a column for each key."""
    tables = []
    if what in CROSSED:
        row, column, cell = CROSSED[what]
        points = sorted({f[column] for f in figures if column in f})
        known = {(f[row], f[column]): f[cell] for f in figures if column in f}
        names = dict.fromkeys(name for name, _ in known)
        rows = [[name, *(known.get((name, point), "–") for point in points)] for name in names]
        tables.append(markdown([f"{what}, {cell}", *points], rows))
        figures = [f for f in figures if column not in f]
    if figures:
        keys = list(dict.fromkeys(key for f in figures for key in f if key != "measure"))
        tables.append(markdown([f"{what}: {keys[0]}", *keys[1:]], [[f.get(key, "–") for key in keys] for f in figures]))
    return "\n\n".join(tables)


def picture_of_codecs(figures, subtitle):
    lines = [{"name": name, "points": [[f["depth"], f["step_ms"]] for f in figures if f["cache"] == name]}
             for name in CODECS_SHOWN if any(f["cache"] == name for f in figures)]
    return plot.draw({
        "title": "What a new token costs, by the cache that holds the past",
        "subtitle": subtitle,
        "x": {"label": "tokens so far"},
        "y": {"label": "milliseconds"},
        "lines": lines,
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--docs", default="docs")
    options = parser.parse_args()
    runs = []
    for path in options.results:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    run = runs[0] | {"results": [r for one in runs for r in one.get("results", [])],
                     "alone": [r for one in runs for r in one.get("alone", [])]}
    for path, one in zip(options.results, runs):
        if (one["model"], one["machine"]) != (run["model"], run["machine"]):
            sys.exit(f"{path} is of another model or machine than {options.results[0]}; draw them one by one")
    if not run["results"] and not run["alone"]:
        sys.exit(f"{', '.join(options.results)} holds no figures")
    subtitle = f"{run['model']}, {run['machine']['cpu']}, {run['machine']['threads']} threads; medians of interleaved rounds"
    for what in dict.fromkeys(r["measure"] for r in run["alone"]):
        figures = [r for r in run["alone"] if r["measure"] == what]
        print(table_alone(figures, what) + "\n")
        if what == "codecs":
            with open(os.path.join(options.docs, "bench_codecs.svg"), "w", encoding="utf-8") as file:
                file.write(picture_of_codecs(figures, subtitle))
    for what in dict.fromkeys(r["measure"] for r in run["results"]):
        print(table(run["results"], what) + "\n")
        figures = [r for r in run["results"] if r["measure"] == what]
        if what in PICTURES and any(r["contender"] in SHOWN for r in figures):
            with open(os.path.join(options.docs, f"bench_{what}.svg"), "w", encoding="utf-8") as file:
                file.write(picture(figures, what, subtitle))


if __name__ == "__main__":
    main()
