"""Radar files of nuScenes: the layout byte by byte, velocities, and a frame without detections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parhelion.core.frames import RadarScan
from parhelion.io import pcd
from parhelion.outputs.datasets import nuscenes_tables


def scan(count: int) -> RadarScan:
    xyz = np.array([[10.0, 0.0, 0.0], [0.0, 20.0, 0.0], [-3.0, 4.0, 0.0]], np.float32)[:count]
    fields = {"radial_velocity": np.array([-6.0, 2.0, 1.0], np.float32), "rcs": np.array([1.0, -2.0, 3.0], np.float32)}
    return RadarScan(xyz, {name: values[:count] for name, values in fields.items()}, "sensor")


def test_rows_hold_velocities_along_the_line_of_sight() -> None:
    # Driving ahead at 6 m/s: the first stands, the second goes away, the third comes at 2.6 m/s.
    rows = nuscenes_tables.rows_of(scan(3), np.array([6.0, 0.0, 0.0]), 0.2)
    assert rows["dyn_prop"].tolist() == [1, 0, 2]
    assert rows["vx"] == pytest.approx([-6.0, 0.0, -0.6])
    assert rows["vy"] == pytest.approx([0.0, 2.0, 0.8], abs=1e-6)
    assert rows["vx_comp"] == pytest.approx([0.0, 0.0, -0.6 * (1.0 - 3.6)], abs=1e-6)
    assert rows["vy_comp"] == pytest.approx([0.0, 2.0, 0.8 * (1.0 - 3.6)], abs=1e-6)
    assert rows["id"].tolist() == [0, 1, 2]
    assert set(rows["ambig_state"]) == {3}
    assert set(rows["invalid_state"]) == {0}


def test_the_file_is_a_pcd_of_18_fields(tmp_path: Path) -> None:
    file = tmp_path / "sweep.pcd"
    file.write_bytes(nuscenes_tables.encode(nuscenes_tables.rows_of(scan(3), np.zeros(3), 0.2)))
    head, body = file.read_bytes().split(b"DATA binary\n", 1)
    lines = dict(line.split(" ", 1) for line in head.decode().splitlines()[1:])
    assert lines["FIELDS"] == (
        "x y z dyn_prop id rcs vx vy vx_comp vy_comp is_quality_valid ambig_state x_rms y_rms invalid_state pdh0 "
        "vx_rms vy_rms"
    )
    assert lines["SIZE"] == "4 4 4 1 2 4 4 4 4 4 1 1 1 1 1 1 1 1"
    assert lines["TYPE"] == "F F F I I F F F F F I I I I I I I I"
    assert len(body) == 3 * 43 + 1
    again = pcd.read(file)
    assert again.xyz == pytest.approx(scan(3).xyz)
    assert again.fields["rcs"].tolist() == [1.0, -2.0, 3.0]


def test_a_frame_without_detections_has_one_row_of_nan() -> None:
    body = nuscenes_tables.encode(nuscenes_tables.rows_of(scan(0), np.zeros(3), 0.2)).split(b"DATA binary\n", 1)[1]
    rows = np.frombuffer(body[:-1], nuscenes_tables.LAYOUT)
    assert len(rows) == 1
    assert np.isnan(rows["x"][0])
