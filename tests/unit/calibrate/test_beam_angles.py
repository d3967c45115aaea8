"""Beam angles of a unit: from metadata of captures, and from the points of clouds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.calibrate.beam_angles import NOT_RECORDED, point_elevations_deg, recorded_channels
from parhelion.calibrate.boards.boards import calibrate_boards
from parhelion.calibrate.drive.drive import calibrate_drive
from parhelion.calibrate.range_images import RangeImage, range_image
from parhelion.calibrate.sheet import with_changes
from parhelion.core.clouds import PointCloud
from parhelion.io.captures import write_capture

NEBULA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "nebula_packets"
VLP = "velodyne/vlp-16"
ORIGIN_M = 0.04
"""Height of the beam origin in the frame of the clouds."""


def cloud(off_deg: np.ndarray, *, pitch_deg: float = 0.0) -> PointCloud:
    """Cloud of a VLP-16 whose beams are off by so much, as a driver with the unit's calibration writes it.

    With `pitch_deg` the cloud was rotated during the revolution, as motion compensation does.
    """
    nominal = np.sort(np.asarray(ph.Lidar(VLP).config.pattern.channels.elevation_deg))  # type: ignore[union-attr]
    elevation = np.radians(nominal + off_deg)[:, None]
    azimuth = np.linspace(-np.pi, np.pi, 900, endpoint=False)[None, :]
    rho = 6.0 + 4.0 * np.sin(3.0 * azimuth) + np.random.default_rng(2).normal(0.0, 0.01, (16, 900))
    z = ORIGIN_M + rho * np.tan(elevation)
    x, y = rho * np.cos(azimuth), rho * np.sin(azimuth)
    tilt = np.radians(pitch_deg) * azimuth / np.pi
    xyz = np.stack([np.cos(tilt) * x + np.sin(tilt) * z, y, np.cos(tilt) * z - np.sin(tilt) * x], axis=-1).reshape(
        -1, 3
    )
    ring = np.repeat(np.arange(16, dtype=np.uint16), 900)
    fields = {"ring": ring, "column": np.tile(np.arange(900, dtype=np.uint16), 16), "intensity": np.ones(len(xyz))}
    return PointCloud(xyz.astype(np.float32), fields)


def test_elevations_follow_from_the_points_of_a_cloud() -> None:
    off = np.random.default_rng(4).normal(0.0, 0.15, 16)
    preset = ph.Lidar(VLP).config
    channels = recorded_channels(range_image(cloud(off)), preset)
    assert isinstance(channels, dict)
    nominal = np.asarray(preset.pattern.channels.elevation_deg)  # type: ignore[union-attr]
    true = nominal + off[np.argsort(np.argsort(nominal))]
    np.testing.assert_allclose(channels["elevation_deg"], true, atol=0.002)
    assert channels["elevation_deg"] == np.round(channels["elevation_deg"], 3).tolist()
    # A change of 0.02 degrees is written, and so are the preset's angles of rings without points.
    small = range_image(cloud(np.where(np.arange(16) == 3, 0.025, 0.0)))
    few = replace(small, range=np.where(small.row == 1, np.nan, small.range))
    found = recorded_channels(few, preset)
    assert isinstance(found, dict)
    assert np.sum(np.abs(np.array(found["elevation_deg"]) - nominal) > 0.02) == 1
    assert found["elevation_deg"][int(np.argsort(nominal)[-2])] == np.sort(nominal)[-2]
    less = range_image(cloud(np.where(np.arange(16) == 3, 0.015, 0.0)))
    assert isinstance(recorded_channels(less, preset), str)
    for rows, known in ((8, True), (9, False)):
        part = replace(small, range=np.where(small.row < rows, np.nan, small.range))
        assert isinstance(recorded_channels(part, preset), dict) == known


def test_elevations_of_the_preset_and_of_corrected_clouds_are_kept() -> None:
    preset = ph.Lidar(VLP).config
    assert recorded_channels(range_image(cloud(np.zeros(16))), preset) == (
        "the elevations of the recording are those of the preset"
    )
    reason = recorded_channels(range_image(cloud(np.zeros(16), pitch_deg=2.0)), preset)
    assert reason == "elevations vary within rings, as in clouds that were corrected for motion"


def test_recordings_of_other_rows_keep_the_preset() -> None:
    """An XT32's sheet does not fit the 16 rings of the cloud, and one ring alone shows no angle."""
    assert recorded_channels(range_image(cloud(np.zeros(16))), ph.Lidar("hesai/xt32").config) == NOT_RECORDED
    spinning = ph.Lidar(VLP).config
    one = cloud(np.zeros(16))
    alone = range_image(one.select(np.asarray(one.fields["ring"]) == 0))
    channels = {key: value[:1] for key, value in spinning.pattern.channels.model_dump(exclude_none=True).items()}  # type: ignore[union-attr]
    assert recorded_channels(alone, with_changes(spinning, {"pattern.channels": channels})) == NOT_RECORDED


def test_a_drive_of_clouds_gets_its_own_elevations() -> None:
    """They were those of the preset before, whatever the points of the recording showed."""
    off = np.random.default_rng(4).normal(0.0, 0.15, 16)
    found = calibrate_drive([range_image(cloud(off), "cloud")], ph.Lidar(VLP).config)
    channels = found.sheet.pattern.channels  # type: ignore[union-attr]
    nominal = np.asarray(found.preset.pattern.channels.elevation_deg)  # type: ignore[union-attr]
    true = nominal + off[np.argsort(np.argsort(nominal))]
    assert "pattern.channels" in found.changed
    np.testing.assert_allclose(channels.elevation_deg, true, atol=0.01)


def xt32() -> tuple[RangeImage, np.ndarray]:
    """Revolution of a real Hesai XT32, by an independent driver, and the elevations of its calibration file."""
    if not (NEBULA / "hesai_xt32.pcd").is_file():
        pytest.skip("recording hesai_xt32.pcd is not available")
    elevation = np.sort(np.genfromtxt(NEBULA / "PandarXT32.csv", delimiter=",", skip_header=1)[:, 1])
    xyz = PointCloud.load(NEBULA / "hesai_xt32.pcd").xyz
    above = np.degrees(np.arctan2(xyz[:, 2], np.hypot(xyz[:, 0], xyz[:, 1])))
    ring = np.argmin(np.abs(above[:, None] - elevation), axis=1).astype(np.uint16)
    return range_image(PointCloud(xyz, {"ring": ring}), "xt32"), elevation


def test_a_real_xt32_has_the_elevations_of_its_calibration_file() -> None:
    """The preset has the nominal ones, which differ by up to 0.083 degrees."""
    frame, elevation = xt32()
    np.testing.assert_allclose(point_elevations_deg(frame)[::-1], elevation, atol=1e-4)
    preset = ph.Lidar("hesai/xt32").config
    nominal = np.sort(preset.pattern.channels.elevation_deg)  # type: ignore[union-attr]
    assert np.abs(nominal - elevation).max() > 0.08
    channels = recorded_channels(frame, preset)
    assert isinstance(channels, dict)
    np.testing.assert_allclose(np.sort(channels["elevation_deg"]), elevation, atol=0.001)


def test_boards_in_a_capture_give_a_sheet_with_the_angles_of_the_unit(tmp_path: Path) -> None:
    preset = ph.Lidar("ouster/os0-32").config
    channels = preset.pattern.channels.model_dump()  # type: ignore[union-attr]
    off = np.random.default_rng(6).normal(0.0, 0.1, 32)
    true = (np.asarray(channels["elevation_deg"]) + off).tolist()
    unit = ph.Lidar(with_changes(preset, {"pattern.channels": channels | {"elevation_deg": true}}))
    unit.model = "ouster/os0-32"
    world = ph.World()
    world.add(ph.shapes.box(0.1, 2.0, 2.0), material="plywood", label="board", pose=ph.Pose((3.0, 0.0, 0.0)))
    write_capture([unit.scan(world, pose=ph.Pose(), seed=1)], tmp_path / "board.pcap")
    file = tmp_path / "boards.yaml"
    file.write_text(yaml.safe_dump({"boards": [{"material": "plywood", "recording": "board.pcap"}]}))
    found = calibrate_boards(file, preset)
    np.testing.assert_allclose(found.sheet.pattern.channels.elevation_deg, true, atol=0.002)  # type: ignore[union-attr]
    assert "pattern.channels: the beam angles of the recorded unit are used" in found.notes
