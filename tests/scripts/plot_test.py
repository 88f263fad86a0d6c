"""Figures of benchmarks/plot.py: what is drawn, where, and what is refused."""

import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import plot

SVG = "{http://www.w3.org/2000/svg}"


def figure(points, **options):
    return {"title": "a < b & c", "lines": [{"name": "one", "points": points}], **options}


class PlotTest(unittest.TestCase):
    def draw(self, *arguments, **options):
        return ElementTree.fromstring(plot.draw(figure(*arguments, **options)))

    def places(self, root):
        line = root.find(f"{SVG}polyline")
        return [tuple(map(float, point.split(","))) for point in line.get("points").split()]

    def test_text_is_escaped_and_colors_are_for_light_and_dark(self):
        text = plot.draw(figure([[0, 1], [1, 2]]))
        self.assertEqual(ElementTree.fromstring(text).get("aria-label"), "a < b & c")
        self.assertIn("prefers-color-scheme: dark", text)

    def test_larger_values_lie_higher_and_further_right(self):
        places = self.places(self.draw([[0, 0], [5, 10], [10, 30]]))
        self.assertEqual(places[0], (plot.LEFT, plot.HEIGHT - plot.BOTTOM))
        self.assertEqual(places, sorted(places, key=lambda place: (place[0], -place[1])))

    def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios(self):
        places = self.places(self.draw([[1, 1], [10, 10], [100, 100]], x={"log": True}, y={"log": True}))
        for axis in (0, 1):
            first, second = places[1][axis] - places[0][axis], places[2][axis] - places[1][axis]
            self.assertAlmostEqual(first, second, delta=0.2)

    def test_all_is_within_the_picture(self):
        for points in ([[3, 4]], [[0, 0]], [[1e-4, 7e6], [2e-4, 1e7]], [[-5, -1], [5, 2]]):
            root = self.draw(points)
            for x, y in self.places(root):
                self.assertTrue(plot.LEFT <= x <= plot.WIDTH - plot.RIGHT and plot.TOP <= y <= plot.HEIGHT - plot.BOTTOM)
            self.assertNotIn("nan", ElementTree.tostring(root, encoding="unicode"))

    def test_ticks_are_round_numbers(self):
        self.assertEqual(plot.Axis([0, 47], {}, 0, 1).ticks, [0, 10, 20, 30, 40, 50])
        self.assertEqual(plot.Axis([8, 300], {"log": True}, 0, 1).ticks, [5, 10, 20, 50, 100, 200, 500])
        self.assertEqual(plot.Axis([8, 90000], {"log": True}, 0, 1).ticks, [10, 100, 1000, 10000, 100000])
        self.assertEqual(plot.Axis([8, 90000], {"log": True}, 0, 1).low, 5)

    def test_ticks_may_be_given(self):
        axis = plot.Axis([70, 2000], {"log": True, "ticks": [64, 512, 2048]}, 0, 1)
        self.assertEqual((axis.ticks, axis.low, axis.high), ([64, 512, 2048], 64, 2048))

    def test_each_line_is_named(self):
        lines = [{"name": f"line {i}", "points": [[0, i]]} for i in range(8)]
        text = plot.draw({"lines": lines})
        for i in range(8):
            self.assertTrue(re.search(f">line {i}<", text))

    def test_what_cannot_be_drawn_is_refused(self):
        with self.assertRaisesRegex(ValueError, "without points"):
            plot.draw(figure([]))
        with self.assertRaisesRegex(ValueError, "logarithmic axis cannot show 0"):
            plot.draw(figure([[0, 1]], x={"log": True}))


if __name__ == "__main__":
    unittest.main()
