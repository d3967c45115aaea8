"""`parhelion stream`: sent data, the end of a stream, and error messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from dds_rigs import DOMAIN, peer

pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.cli.stream import StreamCommand, _address, _by_maker
from parhelion.core.errors import ConfigError
from parhelion.scenario.scenario import Scenario

SCENARIO = """
name: a robot among boxes
seed: 3
duration_s: {duration}
world: cuboids
vehicles:
  - {{name: husky, model: clearpath/husky}}
  - {{name: post, motion: {{fixed: {{xyz: [3, 3, 0]}}}}}}
sensors:
  - {{name: top, type: lidar, model: velodyne/vlp-16, vehicle: husky, mount: {{xyz: [0, 0, 0.8]}},
     options: {{sub_rays: 1}}}}
outputs: []
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "robot.yaml"
    file.write_text(SCENARIO.format(duration=1.0))
    return file


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "parhelion", "stream", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
    )  # fmt: skip


def test_every_cloud_of_a_scenario_reaches_another_program(scenario: Path) -> None:
    asks = {"topic": "/velodyne_points", "kind": "PointCloud2", "depth": 20, "seconds": 40}
    with peer(**asks, count=10) as listener:
        process = start(scenario, "--ros2", "--reliable", "--wait", 20)
        got = listener.report()["got"]
        out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    scans = [scan for step in Scenario.load(scenario) for _, scan in step.scans.get("top", [])]
    assert [row[2] for row in got] == [len(scan) for scan in scans]
    assert {row[1] for row in got} == {"velodyne"}
    assert f"domain {DOMAIN} on lo" in out
    assert "scans     10 with" in out
    assert "behind the clock by" in out
    assert "/velodyne_points" in out


def test_ctrl_c_ends_a_loop_with_its_summary(scenario: Path) -> None:
    scenario.write_text(SCENARIO.format(duration=0.3))
    process = start(scenario, "--ros2", "--loop")
    assert process.stdout is not None
    assert process.stdout.readline() == f"ROS 2: domain {DOMAIN} on lo\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == "stopped\n"
    assert "streamed" in out


def test_wrong_input_is_one_line(fails: Callable[..., str], run: Callable[..., Any], scenario: Path) -> None:
    assert "no network interface 'nowhere0'" in fails("stream", scenario, "--ros2", "--interface", "nowhere0")
    assert "from 0 to 232" in fails("stream", scenario, "--ros2", "--domain", 233)
    assert "no vehicle 'missing'" in fails("stream", scenario, "--ros2", "--cmd-vel", "missing")
    assert "post follows a path of the scenario" in fails(
        "stream", scenario, "--ros2", "--domain", DOMAIN, "--cmd-vel", "post"
    )
    assert "not a valid ROS 2 topic" in fails(
        "stream", scenario, "--ros2", "--domain", DOMAIN, "--cmd-vel", "husky=cmd vel"
    )  # fmt: skip
    assert "no-such.yaml" in fails("stream", "no-such.yaml", "--ros2")
    for wrong in (
        [],
        ["--cmd-vel", "husky", "--velodyne-udp"],
        ["--wait", 3, "--velodyne-udp"],
        ["--velodyne-udp", "--speed", 2],
        ["--ros2", "--speed", 0],
        ["--ros2", "--ahead", -1],
    ):
        assert run("stream", scenario, *wrong).exit_code == 2


def test_rclpy_missing_is_reported(fails: Callable[..., str], scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rclpy", None)
    assert "install ROS 2" in fails("stream", scenario, "--rclpy")


def test_values_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("parhelion.cli.screen.Command.parse_args", lambda self, ctx, args: seen.extend(args))
    command = StreamCommand.__new__(StreamCommand)
    words = ["a.yaml", "--velodyne-udp", "--ouster-udp", "127.0.0.1:9000", "--ouster-http=80", "--foxglove", "--loop"]
    command.parse_args(None, words)
    assert seen == [
        "a.yaml", "--udp=velodyne=", "--udp=ouster=127.0.0.1:9000", "--http=ouster=80", "--foxglove=8765", "--loop",
    ]  # fmt: skip
    seen.clear()
    command.parse_args(None, ["--velodyne-udp", "a.yaml"])
    assert seen == ["--udp=velodyne=", "a.yaml"]


def test_targets_by_maker() -> None:
    assert _by_maker("--udp", ["velodyne", "ouster=10.0.0.1:9000"], lambda codec: codec.title) == {
        "velodyne": "Velodyne", "ouster": "10.0.0.1:9000",
    }  # fmt: skip
    with pytest.raises(typer.BadParameter, match=r"'sick' is not a maker with packets \(velodyne, ouster, hesai,"):
        _by_maker("--udp", ["sick"], lambda codec: "")


def test_addresses() -> None:
    assert _address("--x", "127.0.0.1:2368") == ("127.0.0.1", 2368)
    assert _address("--x", "8765") == ("127.0.0.1", 8765)
    for wrong in ("", "host", "host:", "1.2.3.4:0", "1.2.3.4:70000", "a:b"):
        with pytest.raises(ConfigError, match="--x: give HOST:PORT"):
            _address("--x", wrong)
