"""`parhelion calibrate --live`: boards in front of a simulated sensor that sends packets and ROS 2 messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from typer.testing import CliRunner

import parhelion as ph
from parhelion.calibrate.boards.boards import BoardsFile
from parhelion.calibrate.boards.live import BoardCounter, add_board
from parhelion.calibrate.boards.shots import BoardShots, read_shots, shots_of_cloud
from parhelion.cli.app import app
from parhelion.cli.calibrate_live import LiveBoard
from parhelion.core.config import load
from parhelion.core.errors import ConfigError
from parhelion.io.ros.messages import laser_scan
from parhelion.live.dds import Node, Publisher, Quality
from parhelion.live.udp import TimedSender
from parhelion.makers import codecs

DISTANCE_M, WIDTH_M = 1.2, 1.6
"""The board covers angles up to atan(0.8 / 1.2) = 33.7 deg: seven bins of 5 deg."""


@pytest.fixture(scope="module")
def world() -> ph.World:
    world = ph.World()
    board = ph.shapes.box(0.02, WIDTH_M, 1.4)
    world.add(board, material="plywood", pose=ph.Pose(xyz=(DISTANCE_M + 0.01, 0, 0)))
    world.add(ph.shapes.box(0.2, 12, 4), material="concrete", pose=ph.Pose(xyz=(5, 0, 0)))
    return world


def scans_of(world: ph.World, model: str, count: int) -> list[ph.Scan]:
    lidar = ph.Lidar(model, sub_rays=1)
    return [lidar.scan(world, pose=ph.Pose(), time=k / lidar.rate_hz, seed=k) for k in range(count)]


# ---- counting -------------------------------------------------------------------------------------------------------


def test_counts_per_angle_until_all_are_full(world: ph.World) -> None:
    counter = BoardCounter(wanted=60)
    views = [counter.add(shots_of_cloud(scan, "x")) for scan in scans_of(world, "slamtec/rplidar-a1", 10)]
    last = views[-1]
    assert last.board is not None
    assert last.board.distance_m == pytest.approx(DISTANCE_M, abs=0.01)
    assert last.board.width_m == pytest.approx(WIDTH_M, abs=0.05)
    assert [name for name, _ in last.rows()] == [f"{5 * k}-{5 * k + 5} deg" for k in range(7)]
    # 0.5 deg between shots, on both sides of the normal: 20 per full bin and revolution.
    np.testing.assert_allclose(last.counts[:6], 10 * 20, rtol=0.06)
    first = next(number for number, view in enumerate(views) if view.is_complete)
    assert first >= 60 // 20
    assert all(view.is_complete == (view.counts[view.covered] >= 60).all() for view in views)
    picture = last.top_view()
    assert sum(line.count("o") for line in picture) == 1
    assert sum(line.count("#") for line in picture) > 20
    assert max(line.count("#") for line in picture) == sum(line.count("#") for line in picture)  # one straight line
    assert sum(line.count("+") for line in picture) == 2


def test_a_moved_board_starts_again(world: ph.World) -> None:
    scans = [shots_of_cloud(scan, "x") for scan in scans_of(world, "slamtec/rplidar-a1", 2)]
    counter = BoardCounter()
    before = counter.add(scans[0])
    nearer = BoardShots(scans[1].direction, scans[1].origin, scans[1].range * 0.8, scans[1].intensity)
    views = [counter.add(nearer) for _ in range(40)]
    assert not before.restarted
    assert sum(view.restarted for view in views) == 1
    assert views[-1].board is not None
    assert views[-1].board.distance_m == pytest.approx(0.8 * DISTANCE_M, abs=0.01)


def test_no_board() -> None:
    view = BoardCounter().add(shots_of_cloud(scans_of(ph.World(), "slamtec/rplidar-a1", 1)[0], "x"))
    assert view.board is None
    assert "no board found" in view.problem
    assert not view.is_complete
    assert "".join(view.top_view()).strip() == "o"


def test_boards_files_keep_their_content(tmp_path: Path) -> None:
    file, entry = tmp_path / "boards.yaml", {"material": "oak: old", "recording": "a.mcap", "distance_m": 1.2}
    add_board(file, entry)
    add_board(file, {**entry, "material": "foam"})
    assert [one.material for one in load(BoardsFile, file).boards] == ["oak: old", "foam"]
    file.write_text("# my boards\nboards:\n    - material: a   # first\n      recording: a.txt\ntargets: []\n")
    add_board(file, entry)
    assert file.read_text().splitlines()[:4] == [
        "# my boards",
        "boards:",
        "    - material: a   # first",
        "      recording: a.txt",
    ]
    assert [one.material for one in load(BoardsFile, file).boards] == ["a", "oak: old"]
    for text in ("boards: []\n", "boards: [{material: a, recording: b}]", "statistics: profile\n"):
        file.write_text(text)
        add_board(file, entry)
        assert load(BoardsFile, file).boards[-1].material == "oak: old"
    file.write_text("boards: 3\n")
    with pytest.raises(ConfigError, match="boards"):
        add_board(file, entry)


# ---- running sensors ------------------------------------------------------------------------------------------------


@contextmanager
def running(work: threading.Thread, stop: threading.Event) -> Iterator[None]:
    work.start()
    try:
        yield
    finally:
        stop.set()
        work.join(20.0)


def free_port() -> int:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_packets_of_a_running_sensor(world: ph.World, tmp_path: Path) -> None:
    """The command records until every bin has its shots; the recording calibrates like any other."""
    stream, port, stop = codecs()["velodyne"].stream("velodyne/vlp-16", epoch_s=1.7e9), free_port(), threading.Event()
    datagrams = [one for scan in scans_of(world, "velodyne/vlp-16", 4) for one in stream.add(scan)]
    span = datagrams[-1].time_s - datagrams[0].time_s + 1e-3

    def send() -> None:
        with TimedSender() as sender:
            for turn in range(100):
                if stop.is_set():
                    return
                now = [one._replace(time_s=one.time_s + turn * span, target=("127.0.0.1", port)) for one in datagrams]
                sender.send(now[: len(now) - len(now) % 8])

    boards = tmp_path / "boards.yaml"
    with running(threading.Thread(target=send), stop):
        result = CliRunner().invoke(
            app,
            ["calibrate", "--live", f"udp://:{port}", "--material", "plywood", "--boards", str(boards), "--distance",
             "1.2", "--shots", "200", "--seconds", "30"],
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "added plywood to" in result.output
    (entry,) = load(BoardsFile, boards).boards
    assert (entry.material, entry.recording, entry.distance_m) == ("plywood", "plywood.pcap", 1.2)
    shots = read_shots(tmp_path / "plywood.pcap")
    assert shots.knows_lost
    assert len(shots) > 20_000


class Bus:
    """Node with one publisher of LaserScan, which sends a message per read."""

    def __init__(self, scans: list[ph.Scan]) -> None:
        self.scans, self.number = scans, 0

    def publishers(self, topic: str) -> list[Publisher]:
        return [Publisher("sensor_msgs/msg/LaserScan", reliable=False)] if topic == "/scan" else []

    def subscribe(self, topic: str, kind: str, quality: Quality) -> Bus:
        assert (topic, kind, quality.reliable) == ("/scan", "sensor_msgs/msg/LaserScan", False)
        return self

    def wait(self, seconds: float) -> bool:
        return True

    def take_timed(self) -> list[tuple[bytes, int]]:
        at = 1_700_000_000_000_000_000 + self.number * 100_000_000
        scan = self.scans[self.number % len(self.scans)]
        self.number += 1
        return [(laser_scan(scan, "laser", at, range_min_m=0.1, range_max_m=12.0, scan_time_s=0.1), at)]


def test_scans_of_a_topic(world: ph.World, tmp_path: Path) -> None:
    live = LiveBoard("/scan", tmp_path / "b.yaml", "foam board", WIDTH_M, None, 100, 30.0, 87, 1)
    bus = Bus(scans_of(world, "slamtec/rplidar-a1", 3))
    file = live.run(cast("Node", bus))
    assert file == tmp_path / "foam-board.mcap"
    assert len(read_shots(file)) == 720 * bus.number
    assert 100 / 20 <= bus.number < 30
    again = live.run(cast("Node", bus))  # a second recording of the same material
    assert again.name == "foam-board-2.mcap"
    entries = load(BoardsFile, tmp_path / "b.yaml").boards
    assert [(one.material, one.width_m) for one in entries] == [("foam board", WIDTH_M)] * 2
    assert [one.distance_m for one in entries] == [pytest.approx(DISTANCE_M, abs=0.01)] * 2


def test_nothing_is_left_without_a_board(tmp_path: Path) -> None:
    live = LiveBoard(f"udp://127.0.0.1:{free_port()}", tmp_path / "b.yaml", "a", None, None, 10, 0.3, 0, 1)
    with pytest.raises(ConfigError, match="no packets of Velodyne, Hesai, RoboSense, Livox arrived"):
        live.run()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--live", "scan"], "expected a topic such as /scan"),
        (["--live", "udp://:99999"], "expected udp://HOST:PORT"),
        (["--live", "/scan", "--boards", "x.txt"], "needs a name that ends in .yaml"),
        (["drive.pcap", "--live", "/scan"], "it reads no recordings"),
        (["drive.pcap", "-o", "x.yaml"], "name the sensor"),
        (["drive.pcap", "--sensor", "velodyne/vlp-16"], "name the new data sheet"),
        ([], "name at least one recording"),
    ],
)
def test_wrong_options(options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["calibrate", *options, "--material", "a"])
    assert result.exit_code != 0
    assert message in " ".join(result.output.split()) or message in str(result.exception)
