"""Viewer of a stream: its sliders change the weather and daylight of the stream, and the log repeats the run."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

pytest.importorskip("viser", reason="the package viser is not installed")

from control_rigs import YARD, yard
from parhelion.cli.app import app
from parhelion.core.errors import ConfigError
from parhelion.live.pacing import PacedRun
from parhelion.live.ros import AirControl
from parhelion.live.viewer.stream import ViewOutlet
from parhelion.scenario.control import Control
from parhelion.scenario.events import read_events
from parhelion.scenario.scenario import Step

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WAIT_MS = 60_000


def eventually(happens: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happens():
            return True
        time.sleep(0.005)
    return False


def test_sliders_change_the_next_scan_and_the_log_repeats_it(tmp_path: Path) -> None:
    scenario, log = yard(duration_s=0.6), tmp_path / "events.jsonl"
    air = AirControl(scenario)
    outlet = ViewOutlet(scenario, air, port=0)
    session, stage = outlet.viewer.session, outlet.stage
    moves: dict[int, dict[str, Any]] = {
        15: {"amounts": {"rain": 5.0}},
        25: {"amounts": {"rain": 60.0, "fog": 80.0}, "daylight": {"sun_elevation_deg": 5.0}},
        30: {"amounts": {"snow": -3.0}},
        45: {"amounts": {"fog": float("inf")}},
    }
    scans: list[Any] = []
    heard: list[dict[str, Any]] = []
    air.listeners.append(heard.append)

    def controlled(step: Step) -> None:
        scans.extend(scan for _, scan in step.frames.get("top", ()))
        if move := moves.get(step.number):
            before = stage.asked
            session.change(**move)  # as the panel does when a person moves a slider
            assert eventually(lambda: stage.asked == before + sum(len(one) for one in move.values()))
        air(step)

    PacedRun(scenario, {"viewer": outlet}, speed=1000.0, controllers=[controlled], events=log).run()
    assert outlet.failure is None
    assert (air.messages, air.refused) == (5, 1)
    assert [(round(one["time_s"], 3), one["weather"], one["daylight"]) for one in heard] == [
        (0.01, {}, {}),
        (0.16, {"rain_rate_mm_h": 5.0}, {}),
        (0.26, {"rain_rate_mm_h": 60.0, "visibility_m": 80.0}, {"sun_elevation_deg": 5.0}),
        (0.46, {"rain_rate_mm_h": 60.0}, {"sun_elevation_deg": 5.0}),
    ]
    drops = [int((scan.origin == 1).sum()) for scan in scans]
    assert [count > 0 for count in drops] == [False, True, True, True, True, True]
    assert [bool((scan.origin == 2).any()) for scan in scans] == [False, False, True, True, False, False]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line.get("op"), line.get("step")) for line in lines[1:]] == [
        ("weather", 16), ("weather", 26), ("weather", 26), ("daylight", 26), ("weather", 46), ("quit", 60),
    ]  # fmt: skip
    again: list[Any] = []
    second = yard(duration_s=0.6)
    control = Control(second, script=read_events(log, second))
    control.listeners.append(lambda sensor, *found: again.append(found[-1]) if sensor == "top" else None)
    control.run()
    assert control.deviations == []
    assert len(again) == len(scans)
    assert all(one.equals(other) for one, other in zip(scans, again, strict=True))
    assert {"rain": 60.0, "sun_elevation_deg": 5.0}.items() <= dict(session.measured.air).items()  # type: ignore[union-attr]
    assert "rain_rate_mm_h 60" in session.measured.notes[1]  # type: ignore[union-attr]


def test_a_stream_without_a_lidar_cannot_be_viewed(tmp_path: Path) -> None:
    blind = yard(sensors=[one for one in YARD["sensors"] if one["type"] == "imu"], outputs=[])
    with pytest.raises(ConfigError, match="has no lidar"):
        ViewOutlet(blind, AirControl(blind), port=0)
    file = tmp_path / "yard.yaml"
    file.write_text(yaml.safe_dump({**YARD, "duration_s": 0.1, "outputs": []}))
    done = CliRunner().invoke(app, ["stream", str(file), "--view", "0.0.0.0:8080"])
    assert done.exit_code != 0
    assert "--anywhere" in done.output


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_slider_in_a_browser_reaches_the_stream_and_its_log(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    file, log = tmp_path / "yard.yaml", tmp_path / "events.jsonl"
    file.write_text(yaml.safe_dump({**YARD, "duration_s": 600.0, "outputs": []}))
    command = [sys.executable, "-m", "parhelion", "stream", str(file), "--view", "0", "--events", str(log)]
    flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with subprocess.Popen(
        [*command, "--speed", "0.2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs of a shell ignore it
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found
            with playwright.sync_playwright() as control:
                browser = control.chromium.launch(executable_path=CHROMIUM, args=flags)
                page = browser.new_page(viewport={"width": 1400, "height": 480})
                page.set_default_timeout(WAIT_MS)
                page.goto(found[0])
                page.wait_for_selector("text=points of")
                page.get_by_role("tab", name="Weather").click()
                page.locator('[role=slider][aria-valuemax="100"]').focus()
                page.keyboard.press("End")
                page.wait_for_selector("text=rain_rate_mm_h 100")
                page.locator('[role=slider][aria-valuemax="90"]').focus()
                page.keyboard.press("Home")
                page.wait_for_selector("text=sun_elevation_deg -18")
                page.set_viewport_size({"width": 400, "height": 480})
                page.get_by_role("tab", name="Weather").click()
                assert page.evaluate("document.documentElement.scrollWidth") <= 400
                browser.close()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("op") for line in lines[1:]] == ["weather", "daylight", "quit"], errors
    assert lines[1]["result"] == {"weather": {"rain_rate_mm_h": 100.0}}
    assert lines[2]["result"] == {"daylight": {"sun_elevation_deg": -18.0}}
