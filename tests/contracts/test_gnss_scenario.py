"""Satellites as people see them: lines of sight in the scene, sky plots in the viewer's panel and in the report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from gnss_rigs import canyon
from parhelion.core.streams import BLOCKED, DIRECT, MULTIPATH
from parhelion.pictures.charts import sky_plot

STILL = ph.Fixed(ph.Pose((0, 0, 2)))


def test_the_sky_plot_has_every_satellite_above_the_horizon_and_a_line_to_it() -> None:
    found = ph.Gnss("u-blox/m8", order=0).run(canyon(20.0), STILL, duration=0.2)
    status, drawn = found.status[-1], sky_plot(found)
    names = [name for name, one in zip(found.satellites, status, strict=True) if one > 0]
    assert re.findall(r">([GRECJ]\d\d)<", drawn) == names
    lines = re.findall(r'<path class="sight" d="M180 180L([\d.]+) ([\d.]+)"', drawn)
    # North is up, the zenith in the middle, the horizon a circle of 150.
    seen = np.flatnonzero(status > 0)
    r = 150.0 * (1.0 - np.degrees(found.elevation[-1, seen]) / 90.0)
    azimuth = found.azimuth[-1, seen]
    place = np.stack([180.0 + r * np.sin(azimuth), 180.0 - r * np.cos(azimuth)], axis=1)
    assert np.array(lines, float) == pytest.approx(place, abs=0.051)
    in_view = int(np.sum((status == DIRECT) | (status == MULTIPATH)))
    assert 0 < in_view < len(names)
    assert drawn.count("stroke-dasharray") == len(names) - in_view
    assert sky_plot(found.select(slice(0, 0))) == ""


def test_the_viewer_s_lines_point_to_the_satellites() -> None:
    from parhelion.live.viewer.layers import SIGHT_M, VIEWER

    found = ph.Gnss("u-blox/m8", order=0).run(canyon(20.0), STILL, duration=0.2)
    layer = VIEWER.require(ph.GnssData)
    assert layer.segments is not None
    assert layer.drawing is sky_plot
    drawn = layer.segments(found)
    assert drawn is not None
    assert drawn.ends[:, 0] == pytest.approx(np.tile([0.0, 0.0, 2.0], (len(drawn.ends), 1)))
    way = (drawn.ends[:, 1] - drawn.ends[:, 0]) / SIGHT_M
    above = found.status[-1] > 0
    assert np.arcsin(way[:, 2]) == pytest.approx(found.elevation[-1, above], abs=1e-6)
    # x points east.
    assert np.sin(np.arctan2(way[:, 0], way[:, 1]) - found.azimuth[-1, above]) == pytest.approx(0.0, abs=1e-6)
    grey = np.ptp(drawn.colours[:, 0].astype(int), axis=1) < 20
    assert np.array_equal(grey, found.status[-1, above] == BLOCKED)


@pytest.mark.slow
def test_a_stage_and_the_report_show_the_sky(tmp_path: Path) -> None:
    from parhelion.live.viewer.panel import drawings_html
    from parhelion.live.viewer.stages import ScenarioStage

    fields: dict[str, Any] = {
        "duration_s": 0.3, "seed": 3, "world": "cuboids", "sensors": [
            {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1.8]}},
            {"name": "gps", "type": "gnss", "model": "u-blox/m8", "mount": {"xyz": [0, 0, 2]}},
        ],
    }  # fmt: skip
    stage = ScenarioStage(ph.Scenario.from_mapping(fields), time=0.2)
    shown = stage.measure(stage.places["top"])
    assert [name for name, _ in shown.drawings] == ["gps"]
    page = drawings_html(shown.drawings)
    assert 'aria-label="sky plot"' in page
    summary = ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    assert summary.report is not None
    assert 'class="sight"' in summary.report.read_text()
