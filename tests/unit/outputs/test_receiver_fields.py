"""First-path power of ranges and quality of fixes reach the report, the viewer, pictures and tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import parhelion as ph
from parhelion.core.streams import RTK_FIXED
from parhelion.live.viewer.layers import _fix, _heard
from parhelion.outputs.files import fix_columns
from parhelion.outputs.report.collect import _sky, ranges_table
from parhelion.pictures.records import _gnss, _uwb


def ranges(first_path: float | None) -> ph.UwbData:
    return ph.UwbData(
        time=[0.0], anchors=("A",), anchor_xyz=[[0, 0, 2]], range=[[5.1]], range_std=[[0.05]], rssi=[[-81.0]],
        snr=[[22.0]], los=[[True]], true_range=[[5.0]], position=[[np.nan] * 3],
        position_covariance=np.full((1, 3, 3), np.nan), gdop=[np.nan],
        first_path_power=None if first_path is None else [[first_path]],
    )  # fmt: skip


def test_first_path_power_is_shown_in_dbm() -> None:
    found = ranges(-84.25)
    assert "first path" in ranges_table(found)
    assert "-84.2 dBm" in ranges_table(found)
    assert "strongest first path -84.2 dBm" in _heard("tag", found)[0]
    assert any("First path" in panel.title for panel in _uwb(found))
    assert "first_path_power_A" in found.to_dataframe()


def test_records_without_first_path_power_are_shown() -> None:
    found = ranges(None)
    assert "-81.0 dBm" in ranges_table(found)
    assert "first path" not in _heard("tag", found)[0]


def test_the_quality_of_fixes_is_shown_by_name() -> None:
    world = ph.World()
    pose = ph.Pose(xyz=(0.0, 0.0, 2.0))
    found = ph.Gnss("u-blox/f9p").run(world, pose, start=0.0, duration=1.0, seed=1)
    assert found.quality is not None
    fixed = replace(found, quality=np.full(len(found), RTK_FIXED, found.quality.dtype))
    assert "RTK fixed 100 %" in _sky(fixed)[0][2]
    assert _fix("gnss", fixed)[0].startswith("gnss: RTK fixed, error")
    assert any("quality" in panel.title for panel in _gnss(fixed))
    assert set(fix_columns(fixed)["quality"]) == {RTK_FIXED}
