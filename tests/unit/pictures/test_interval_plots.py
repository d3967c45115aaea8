"""Means with whiskers as SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

from parhelion.pictures.interval_plots import interval_plot
from parhelion.pictures.run_plots import Curve


def curve(mean: list[float], half: list[float], name: str = "a") -> Curve:
    middle, width = np.array(mean), np.array(half)
    return Curve(name, np.arange(len(mean), dtype=float), middle, middle - width, middle + width)


def test_every_mean_has_a_dot_and_every_interval_a_whisker() -> None:
    drawn = interval_plot([curve([1, 2, 3], [0.1, 0, 0.2])], unit="m", x_label="rain & haze")
    svg = ElementTree.fromstring(drawn)
    assert len(svg.findall("circle")) == 3
    whiskers = next(path.get("d") for path in svg.findall("path") if "V" in str(path.get("d")))
    assert str(whiskers).count("V") == 2  # one mean has no interval
    heights = [float(circle.get("cy") or 0) for circle in svg.findall("circle")]
    assert heights == sorted(heights, reverse=True)  # larger is higher up
    assert "rain &amp; haze" in drawn


def test_one_value_and_equal_values_are_drawn() -> None:
    for mean in ([5.0], [0.0, 0.0, 0.0]):
        drawn = interval_plot([curve(mean, [0.0] * len(mean))], unit="1", x_label="x")
        assert "nan" not in drawn
        assert len(re.findall("<circle", drawn)) == len(mean)
    assert interval_plot([], unit="m", x_label="x") == ""
