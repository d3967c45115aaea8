"""Charts as SVG: means with whiskers, scales, limits, histograms and legends."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html import escape, unescape

import numpy as np
import pytest

from parhelion.pictures.charts import Chart, Curve, log_ticks, scale_of, ticks


def curve(mean: list[float], half: list[float], name: str = "a") -> Curve:
    return Curve.of(name, np.arange(len(mean)), mean, 0, "joined", half)


def dots(drawn: str) -> list[tuple[float, float]]:
    """Positions of the dots."""
    return [(float(x), float(y)) for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)h0", drawn)]


def test_every_mean_has_a_dot_and_every_interval_a_whisker() -> None:
    drawn = Chart([curve([1, 2, 3], [0.1, 0, 0.2])], "m", "rain & haze").svg()
    svg = ElementTree.fromstring(drawn)
    assert len(dots(drawn)) == 3
    whiskers = [path.get("d") or "" for path in svg.iter("path") if path.get("class") == "line s0"]
    assert whiskers[0].count("V") == 2  # one mean has no interval
    heights = [y for _, y in dots(drawn)]
    assert heights == sorted(heights, reverse=True)  # larger is higher up
    assert "rain &amp; haze" in drawn


def test_one_value_and_equal_values_are_drawn() -> None:
    for mean in ([5.0], [0.0, 0.0, 0.0]):
        drawn = Chart([curve(mean, [0.0] * len(mean))], "1", "x").svg()
        assert "nan" not in drawn
        assert len(dots(drawn)) == len(mean)
    assert Chart([], "m", "x").svg() == Chart([], "m", "x").figure("title") == ""


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors() -> None:
    drawn = Chart([Curve.of("a", [1.0, 10.0, 100.0], [1.0, 2.0, 3.0], 0, "dots")], "m", "x", log="x").svg()
    x = [place for place, _ in dots(drawn)]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.11)
    assert log_ticks(0.9, 60.0) == [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    assert log_ticks(1.0, 1e4) == [1.0, 10.0, 100.0, 1000.0, 10000.0]
    assert scale_of((1.0, 100.0), (0.0, 2.0), log=True)([0.0, 10.0]).tolist() == [0.0, 1.0]


def test_ticks_are_round_and_near_the_number_asked_for() -> None:
    assert ticks(0.0, 90.0, 3) == [0.0, 20.0, 40.0, 60.0, 80.0]
    assert ticks(-4.8, 4.8, 4) == [-4.0, -2.0, 0.0, 2.0, 4.0]
    assert ticks(0.0, 1.0, 4) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(3.0, 3.0, 4) == [3.0]


def test_dots_at_the_ends_of_a_logarithmic_axis_stay_off_its_edges() -> None:
    drawn = Chart([Curve.of("a", [1.0, 100.0], [1.0, 2.0], 0, "dots")], "m", "x", log="x", size=(480, 200)).svg()
    (first, _), (last, _) = dots(drawn)
    assert 60 + 5 < first < last < 468 - 5


def test_a_flat_chart_of_equal_axes_is_low() -> None:
    path = Curve.of("a", [0.0, 100.0], [0.0, 1.0])
    heights = [
        float(
            ElementTree.fromstring(Chart([path], "y", "x", equal=equal, size=(480, 360)).svg())
            .get("viewBox", "")
            .split()[3]
        )
        for equal in (False, True)
    ]
    assert heights == [360.0, 148.0]


def test_equal_axes_have_one_scale() -> None:
    places = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 4.0]])
    drawn = Chart([Curve.of("a", *places.T, 0, "dots")], "y [m]", "x [m]", equal=True).svg()
    (x0, y0), (x1, _), (_, y2) = dots(drawn)
    assert (x1 - x0) / 10.0 == pytest.approx((y0 - y2) / 4.0, abs=0.05)


def test_limits_cut_curves_off() -> None:
    steep = Curve.of("a", [0.0, 1.0], [0.0, 100.0])
    assert len(list(ElementTree.fromstring(Chart([steep], "m", y_limits=(0.0, 1.0)).svg()).iter("svg"))) == 2
    assert len(list(ElementTree.fromstring(Chart([steep], "m").svg()).iter("svg"))) == 1


def test_a_histogram_counts_its_values() -> None:
    steps = Curve.histogram("a", [0.0, 0.1, 0.9, 1.0, 1.0], 2)
    assert steps.mean.tolist() == [2.0, 2.0, 3.0, 3.0]
    assert steps.x.tolist() == [0.0, 0.5, 0.5, 1.0]
    assert "nan" not in Chart([steps], "n", "x", log="y").svg()


def test_many_dots_become_one_for_each_place() -> None:
    rng = np.random.default_rng(1)
    drawn = Chart([Curve.of("a", rng.integers(0, 5, 9000), rng.integers(0, 4, 9000), 0, "dots")], "m").svg()
    assert len(dots(drawn)) == 20


def test_a_legend_names_several_curves_with_their_looks() -> None:
    curves = [Curve.of("a", [0, 1], [0, 1]), Curve.of("<b>", [0, 1], [1, 2], 1, "dashed"), Curve.level(0.5, [0, 1])]
    key = Chart(curves, "m").key()
    assert key.count("<i") == 2
    assert 'class="dashed"' in key
    assert "&lt;b&gt;" in key
    assert Chart(curves[:1], "m").key() == ""


def test_categories_are_named_below_their_places_and_have_no_numbers() -> None:
    names = ("velodyne/vlp-16", "ouster/os1-128", "a name with <many> words, and more of them than fit")
    marks = Curve.of("", [1, 2, 3], [5.0, 6.0, 7.0], look="dots")
    drawn = Chart([marks], "points", "model of top", categories=names).svg()
    for name in names:
        assert f"<title>{escape(name)}</title>" in drawn
    assert "<many>" not in drawn
    ticks = re.findall(r'<text class="mid"><title>[^<]*</title>(.*?)</text>', drawn)
    assert len(ticks) == 3
    assert ["velodyne/", "vlp-16"] in [re.findall(r">([^<]*)</tspan>", tick) for tick in ticks] or "vlp-16" in drawn
    assert not re.search(r">[123](\.\d)?</text>", drawn), "no numbers on the axis of categories"
    (data,) = json.loads(unescape(re.search(r'data-curves="([^"]*)"', drawn)[1]))  # type: ignore[index]
    assert data == ["", [1.0, 2.0, 3.0], [5.0, 6.0, 7.0]]
