#!/usr/bin/env python3
"""Draws lines as an SVG that reads well on GitHub, in light and in dark mode.

    plot.py FIGURE.json OUT.svg

FIGURE.json: {"title": "..", "subtitle": "..", "x": {"label": "..", "log": true}, "y": {"label": "..", "log": true},
              "lines": [{"name": "..", "points": [[x, y], ..]}, ..]}

Other scripts call draw(figure), which gives the text. Standard library only.
"""
import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 96, 56
# Of like lightness on white and on #0d1117: blue, orange, green, purple, red, teal.
COLORS = ["#2f81f7", "#d9730d", "#2da44e", "#a371f7", "#e5534b", "#1b9aaa"]
STYLE = """
    text { font-family: -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .small { font-size: 12px; fill: #59636e }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .axis { stroke: #818b98; stroke-width: 1 }
    .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc } .small { fill: #9198a1 } .grid { stroke: #3d444d } .axis { stroke: #656c76 }
    }
"""


def number(x):
    """1500 as 1,500 and 0.25 as it is."""
    if x == int(x):
        return f"{int(x):,}"
    return f"{x:.3g}"


class Axis:
    """Values of one direction and where they lie, in pixels from `begin` to `end`."""

    def __init__(self, values, options, begin, end):
        self.log = options.get("log", False)
        self.label = options.get("label", "")
        self.begin, self.end = begin, end
        low, high = min(values), max(values)
        if self.log and low <= 0:
            raise ValueError(f"a logarithmic axis cannot show {low}")
        self.ticks = options.get("ticks")
        if not self.ticks:
            # The axis reaches to the round numbers around the values.
            around = self.decades(low, high) if self.log else self.steps(min(low, 0.0), high)
            low, high = around[0], around[-1]
            many = self.log and len(around) > 10
            self.ticks = [tick for tick in around if not many or math.log10(tick).is_integer()]
        self.low, self.high = min(low, self.ticks[0]), max(high, self.ticks[-1])
        if self.low == self.high:
            self.high = self.low * 2 if self.log else self.low + 1

    @staticmethod
    def decades(low, high):
        """1, 2 and 5 of each power of ten, from the last that is not above the values to the first not below them."""
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [float(f"{m}e{power}") for power in powers for m in (1, 2, 5)]
        below = max(tick for tick in ticks if tick <= low)
        above = min(tick for tick in ticks if tick >= high)
        return [tick for tick in ticks if below <= tick <= above]

    @staticmethod
    def steps(low, high):
        """About five round numbers."""
        span = (high - low) or 1.0
        power = 10.0 ** math.floor(math.log10(span / 5))
        step = next(m * power for m in (1, 2, 5, 10) if m * power * 5 >= span)
        return [i * step for i in range(math.floor(low / step), math.ceil(high / step) + 1)]

    def at(self, value):
        scale = math.log if self.log else float
        part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.begin + part * (self.end - self.begin)


def legend(lines):
    """One row of marks and names under the title."""
    parts, x = [], LEFT
    for line, color in lines:
        name = escape(line["name"])
        parts.append(f'<path class="line" stroke="{color}" d="M{x} {TOP - 24} h22"/>')
        parts.append(f'<text class="small" x="{x + 30}" y="{TOP - 20}">{name}</text>')
        x += 30 + 6.6 * len(line["name"]) + 28
    return parts


def draw(figure):
    """The SVG of a figure (see above). Raises ValueError for one without points, or KeyError for one without lines."""
    lines = list(zip(figure["lines"], [COLORS[i % len(COLORS)] for i in range(len(figure["lines"]))]))
    points = [point for line, _ in lines for point in line["points"]]
    if not points:
        raise ValueError("a figure without points")
    x = Axis([p[0] for p in points], figure.get("x", {}), LEFT, WIDTH - RIGHT)
    y = Axis([p[1] for p in points], figure.get("y", {}), HEIGHT - BOTTOM, TOP)
    title = escape(figure.get("title", ""))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        f"  <style>{STYLE}  </style>",
        f'<text class="title" x="24" y="32">{title}</text>',
        f'<text class="small" x="24" y="52">{escape(figure.get("subtitle", ""))}</text>',
    ]
    for tick in y.ticks:
        at = f"{y.at(tick):.1f}"
        parts.append(f'<path class="grid" d="M{LEFT} {at} H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="small" x="{LEFT - 8}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for tick in x.ticks:
        at = f"{x.at(tick):.1f}"
        parts.append(f'<path class="axis" d="M{at} {HEIGHT - BOTTOM} v5"/>')
        parts.append(f'<text class="small" x="{at}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{number(tick)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM} H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="small" x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x.label)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="small" transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>'
    )
    parts += legend(lines)
    for line, color in lines:
        places = [(x.at(px), y.at(py)) for px, py in line["points"]]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
        parts.append(f'<polyline class="line" stroke="{color}" points="{path}"/>')
        for (px, py), (vx, vy) in zip(places, line["points"]):
            tip = escape(f'{line["name"]}: {number(vy)} at {number(vx)}')
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{color}"><title>{tip}</title></circle>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py FIGURE.json OUT.svg")
    with open(sys.argv[1], encoding="utf-8") as file:
        figure = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(figure))


if __name__ == "__main__":
    main()
