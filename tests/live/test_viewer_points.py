"""Detections of radars and pulse-echo sensors in the viewer: colours and sizes of points, also in a real browser."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from test_viewer_cameras import Recorder

import parhelion as ph
from parhelion.core.frames import EchoScan, RadarScan
from parhelion.live.viewer import Session
from parhelion.live.viewer.layers import VIEWER
from parhelion.live.viewer.scene import Scene
from parhelion.live.viewer.stages import scenario_stage

SCENARIO = {
    "duration_s": 0.6, "seed": 3, "world": "test-range",
    "vehicles": [{"name": "car", "motion": {"constant": {"xyz": [0, 0, 0], "velocity_m_s": [5, 0, 0]}}}],
    "sounds": [{"name": "siren", "xyz": [12, 4, 2], "level_db": 130, "band_khz": [30, 50]}],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "car", "mount": {"xyz": [0, 0, 1.5]}},
        {"name": "front", "type": "radar", "model": "ti/iwr6843", "vehicle": "car", "mount": {"xyz": [0.6, 0, 0.8]}},
        {"name": "ears", "type": "echo", "model": "generic/ultrasonic-ranger", "vehicle": "car",
         "mount": {"xyz": [0.6, 0, 0.4], "rpy_deg": [0, 20, 0]}, "options": {"mode": "both"}},
    ],
}  # fmt: skip


def test_points_of_other_sensors_are_in_the_scene() -> None:
    session = Session(scenario_stage(ph.Scenario.from_mapping(SCENARIO)))
    session.change(time_s=0.2)
    shown = session.update()
    assert shown is not None
    radar, heard = shown.measured.dots
    assert len(radar.xyz) > 0
    assert len(heard.xyz) > 0
    assert any(note.startswith("front:") and "by radial velocity" in note for note in shown.measured.notes)
    assert any(note.startswith("ears:") and "hears siren" in note for note in shown.measured.notes)
    server = Recorder()
    Scene(server, None).show(shown)
    clouds = [call for call in server.calls if call[0] == "add_point_cloud" and call[1][0].startswith("/dots/")]  # type: ignore[misc]
    # Their positions in the scene are those in the world.
    placed = np.concatenate([call[1][1] + np.array(call[2]["position"]) for call in clouds])  # type: ignore[misc]
    both = np.concatenate([radar.xyz, heard.xyz])
    assert len(placed) == len(both)
    nearest = np.abs(placed[:, None] - both[None]).max(axis=2).min(axis=1)
    assert nearest.max() < 1e-4
    again = session.update()
    assert again is None  # without a change there is no new measurement


def test_colours_show_speed_and_level() -> None:
    names = {"origin": {0: "surface"}, "label": {0: "wall"}, "source": {0: "own pulse"}}
    snr = np.array([10.0, 20.0, 40.0], np.float32)
    fields: dict[str, Any] = {"range": np.ones(3, np.float32), "snr": snr, "source": np.zeros(3, np.uint16)}
    place = ph.Pose((10, 0, 0))
    speeds = {**fields, "radial_velocity": np.array([-15.0, 0.0, 15.0], np.float32)}
    points = np.eye(3, dtype=np.float32)
    radar, echo = (VIEWER.require(kind).dots for kind in (RadarScan, EchoScan))
    assert radar is not None
    assert echo is not None
    dots = radar(RadarScan(points, speeds, "sensor", names, {}, pose=place))
    nearer, still, away = dots.colours.astype(int)
    assert nearer[2] > nearer[0] + 80
    assert np.ptp(still) < 20
    assert away[0] > away[2] + 80
    assert np.all(np.diff(dots.size_m) > 0)
    assert dots.xyz == pytest.approx(points + np.array([10.0, 0.0, 0.0]))
    heard = echo(EchoScan(points, fields, "sensor", names, {}, pose=place))
    assert np.all(np.diff(heard.colours[:, 1].astype(int)) > 0)  # from violet through green to yellow


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_draws_them(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    pytest.importorskip("viser", reason="the package viser is not installed")
    from PIL import Image

    (tmp_path / "both.yaml").write_text(yaml.safe_dump(SCENARIO))
    command = [sys.executable, "-m", "parhelion", "view", str(tmp_path / "both.yaml"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found
        flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        with playwright.sync_playwright() as control:
            program = control.chromium.launch(executable_path=CHROMIUM, args=flags)
            page = program.new_page(viewport={"width": 900, "height": 560})
            complaints: list[str] = []
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(found[0])
            page.wait_for_selector("text=points of", timeout=30_000)
            page.wait_for_selector("text=by radial velocity", timeout=30_000)
            assert page.get_by_text("hears siren").count() == 1
            # Light blue of approaching radar detections and green of echoes: the colours of the lidar contain neither.
            end, seen = time.monotonic() + 20.0, (0, 0)
            while time.monotonic() < end and min(seen) < 20:
                data = page.locator("canvas[data-engine]").screenshot()
                pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
                red, green, blue = (pixels[:, :560, k] for k in range(3))
                nearer = (blue > 220) & (blue > red + 15) & (red > 100)
                louder = (green > red + 40) & (green > 90)
                seen = int(np.count_nonzero(nearer)), int(np.count_nonzero(louder))
            (tmp_path / "page.png").write_bytes(page.screenshot())
            assert min(seen) >= 20, seen
            assert complaints == []
            program.close()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 130
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
