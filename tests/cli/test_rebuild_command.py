"""`parhelion rebuild` as users run it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.io.captures import write_capture
from parhelion.rebuild.reading import read_frames

pytestmark = pytest.mark.slow

DRIVE = ph.ConstantTwist(ph.Pose((0.0, 0.0, 1.5)), (1.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three revolutions in a warehouse, and their poses."""
    folder = tmp_path_factory.mktemp("drive")
    lidar, world = ph.Lidar("ouster/os0-32", columns=512), ph.World.load("warehouse")
    write_capture([lidar.scan(world, trajectory=DRIVE, time=0.4 * k, seed=k) for k in range(3)], folder / "drive.pcap")
    lines = []
    for time in np.arange(0.0, 1.2, 0.1):
        xyz, quat = DRIVE.sample([time])
        lines.append(" ".join(f"{value:.6f}" for value in (time, *xyz[0], *quat[0])))
    (folder / "drive.tum").write_text("\n".join(lines) + "\n")
    return folder / "drive.pcap"


def test_a_capture_becomes_a_world(run: Callable[..., Any], capture: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    options = ("--sensor", "ouster/os0-32", "-o", place, "--poses", capture.with_suffix(".tum"))
    shown = run("rebuild", capture, *options)
    assert shown.exit_code == 0, shown.output
    assert "3 of 3" in shown.output
    scanned = run("scan", "--world", place, "--sensor", place / "sensor.yaml", "-o", tmp_path / "again.pcd")
    assert scanned.exit_code == 0, scanned.output
    assert len(ph.PointCloud.load(tmp_path / "again.pcd")) > 5000
    # A second rebuild replaces the first.
    assert run("rebuild", capture, *options).exit_code == 0
    assert [file.name for file in tmp_path.iterdir() if "place" in file.name] == ["place"]


def test_wrong_input_is_refused_and_writes_nothing(fails: Callable[..., str], capture: Path, tmp_path: Path) -> None:
    place, sensor = tmp_path / "place", ("--sensor", "ouster/os0-32", "-o", tmp_path / "place")
    assert "no such file" in fails("rebuild", tmp_path / "none.pcap", *sensor)
    late = tmp_path / "late.tum"
    late.write_text("100 0 0 0 0 0 0 1\n101 1 0 0 0 0 0 1\n")
    assert "the poses cover 100.000 to 101.000 s" in fails("rebuild", capture, *sensor, "--poses", late)
    late.write_text("0 nan 0 0 0 0 0 1\n")
    assert "finite" in fails("rebuild", capture, *sensor, "--poses", late)
    single = tmp_path / "one.pcap"
    lidar = ph.Lidar("ouster/os0-32", columns=512)
    write_capture([lidar.scan(ph.World.load("warehouse"), pose=ph.Pose((0, 0, 1.5)), seed=1)], single)
    assert "at least two" in fails("rebuild", single, *sensor)
    assert not place.exists()


def test_long_drives_are_thinned_while_they_are_read(capture: Path) -> None:
    drive = read_frames(capture, ph.Lidar("ouster/os0-32", columns=512), most=2)
    assert drive.read == 3
    assert len(drive.frames) == 2
    assert drive.frames[1].time_s - drive.frames[0].time_s == pytest.approx(0.8, abs=0.01)
    assert any("2 of 3 revolutions" in note for note in drive.notes)
