"""Radars and pulse-echo sensors from a scenario to files, bag, report and viewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

import parhelion as ph
from parhelion.core.frames import RadarScan
from parhelion.io.ros import messages as ros
from parhelion.io.ros.types import DEFINITIONS
from parhelion.live.viewer.layers import VIEWER
from wave_rigs import radar_config


@pytest.mark.slow
def test_a_run_writes_detections_and_echoes_everywhere(tmp_path: Path) -> None:
    fields = {
        "duration_s": 0.2, "seed": 4, "world": "test-range",
        "vehicles": [{"name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 1, 0]]}}],
        "sensors": [
            {"name": "front", "type": "radar", "model": "ti/iwr6843", "vehicle": "robot",
             "mount": {"xyz": [0.6, 0, 0.8]}},
            {"name": "sonar", "type": "echo", "model": "generic/ultrasonic-ranger", "vehicle": "robot",
             "mount": {"xyz": [0.6, 0, 0.4], "rpy_deg": [0, 60, 0]}, "format": "npz"},
        ],
        "outputs": [{"kind": "bag"}, {"kind": "foxglove"}],
    }  # fmt: skip
    summary = ph.Scenario.from_mapping(fields).run(tmp_path / "out")
    tables = sorted((tmp_path / "out" / "front").glob("*.csv"))
    assert len(tables) == 4
    rows = np.genfromtxt(tables[0], delimiter=",", names=True)
    assert {"range", "azimuth", "elevation", "radial_velocity", "rcs", "snr"} <= set(rows.dtype.names or ())
    assert list((tmp_path / "out" / "sonar").glob("*.npz"))
    store = get_typestore(Stores.ROS2_HUMBLE)
    for name, text in DEFINITIONS.items():
        store.register(get_types_from_msg(text, name))
    with AnyReader([tmp_path / "out" / "bag"], default_typestore=store) as bag:
        kinds = {one.topic: one.msgtype for one in bag.connections}
        assert kinds["/front/detections"] == kinds["/sonar/echoes"] == "sensor_msgs/msg/PointCloud2"
        assert kinds["/front/scan"] == "radar_msgs/msg/RadarScan"
        stored = {one.topic: bag.deserialize(raw, one.msgtype) for one, _, raw in bag.messages()}
    assert len(stored["/front/scan"].returns) == stored["/front/detections"].width
    assert stored["/sonar/range"].max_range == pytest.approx(4.0)
    assert summary.report is not None
    assert "Radar and echoes" in summary.report.read_text()


def scene() -> ph.World:
    world = ph.World("wall")
    world.add(ph.shapes.board(4, 4, 0.1), material="steel", label="wall", pose=ph.Pose((20, 0, 0)))
    return world


def test_npz_keeps_the_cube_and_the_waveform(tmp_path: Path) -> None:
    scan = ph.Radar(radar_config(), cube=True).scan(scene(), pose=ph.Pose((1, 0, 0)), seed=2, time=0.5)
    scan.save(tmp_path / "scan.npz")
    again = ph.PointCloud.load(tmp_path / "scan.npz")
    assert isinstance(again, RadarScan)
    assert again.cube is not None
    assert scan.cube is not None
    assert again.cube.power.tobytes() == scan.cube.power.tobytes()
    assert again.rcs.tobytes() == scan.rcs.tobytes()
    assert again.pose == scan.pose
    assert again.start_time == 0.5
    heard = ph.Echo("cosys/ertis-array", waveform=True, rays=2000).ping(scene(), pose=ph.Pose((17, 0, 0)))
    heard.save(tmp_path / "heard.npz")
    read = ph.PointCloud.load(tmp_path / "heard.npz")
    assert isinstance(read, ph.EchoScan)
    assert read.waveform is not None
    assert heard.waveform is not None
    assert read.waveform.samples.tobytes() == heard.waveform.samples.tobytes()


def test_messages_hold_what_was_measured() -> None:
    from parhelion.io.ros.messages import RADAR_SCAN, RANGE, radar_scan, range_message

    scan = ph.Radar(radar_config()).scan(scene(), pose=ph.Pose(), seed=2)
    sent = ros.decode(RADAR_SCAN, radar_scan(scan, "front", 10**9))
    assert [one.range for one in sent.returns] == pytest.approx(scan.range.tolist())
    assert [one.doppler_velocity for one in sent.returns] == pytest.approx(scan.radial_velocity.tolist())
    assert sent.header.frame_id == "front"
    nothing = ros.decode(RANGE, range_message(float("inf"), (0.1, 4.0), 0.5, "sonar", 0))
    assert np.isinf(nothing.range)
    layer = VIEWER.require(RadarScan)
    assert f"{len(scan.range)} detections" in layer.lines("front", scan)[0]


def test_pictures_of_frames(tmp_path: Path) -> None:
    from PIL import Image

    from parhelion import pictures

    scan = ph.Radar(radar_config(), cube=True).scan(scene(), pose=ph.Pose(), seed=2)
    pictures.draw_radar(scan, tmp_path / "radar.png")
    echoes = ph.Echo("generic/ultrasonic-ranger", waveform=True).ping(scene(), pose=ph.Pose((18, 0, 0)))
    pictures.draw_echoes(echoes, tmp_path / "echo.png")
    for name in ("radar", "echo"):
        assert len(np.unique(np.asarray(Image.open(tmp_path / f"{name}.png")).reshape(-1, 4), axis=0)) > 20
