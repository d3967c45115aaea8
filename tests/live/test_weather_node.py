"""Weather on a live topic: a second program plays a bag, and hears the same bytes as weather on the recording gives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from cloud_player import digest, played

import parhelion as ph
from calibrate_rigs import recording
from dds_rigs import DOMAIN
from parhelion.core.errors import ConfigError
from parhelion.io.captures import read_frames
from parhelion.io.ros import BagReader, BagWriter
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform
from parhelion.io.ros.returns import LASER_SCAN, LIVOX_MESSAGES, RETURN_MESSAGES, stamp_and_frame
from parhelion.io.ros.types import encode, header, new
from parhelion.live.dds import DdsNode, Node, Publisher
from parhelion.live.weather import LiveSummary, Rhythm, Weathering, WeatherNode
from velodyne_rigs import made_up_scan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="holding sockets to an interface is Linux's")
PLAYER = Path(__file__).parent / "cloud_player.py"
RAIN = ph.Weather(rain_rate_mm_h=25)
CELLS = ph.Weather(fog={"visibility_m": 60, "heterogeneity": {"scale_m": 20}}, wind_m_s=(3, 0, 0))


@pytest.fixture(scope="module")
def vlp16() -> ph.Lidar:
    return ph.Lidar("velodyne/vlp-16")


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory, vlp16: ph.Lidar) -> Path:
    """Three scans and the motion of the vehicle."""
    file = tmp_path_factory.mktemp("bag") / "drive.mcap"
    with BagWriter(file) as writer:
        mount = Transform("base_link", "velodyne", 0, (0.2, 0.0, 1.8), (0.0, 0.0, 0.0, 1.0))
        writer.write(Message("/tf_static", ros.TF, 0, ros.tf_message([mount])))
        for second in (1_699_999_999, 1_700_000_009):
            x = float(second - 1_700_000_000)
            moved = Transform("odom", "base_link", second * 10**9, (3.0 * x, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
            writer.write(Message("/tf", ros.TF, 1, ros.tf_message([moved])))
        for number in range(3):
            scan = made_up_scan(vlp16, seed=number)
            data = ros.point_cloud2(scan, "velodyne", number * 10**8, "velodyne")
            writer.write(Message("/points", ros.POINT_CLOUD, 2 + number, data))
    return file


def expected(messages: list[Message], job: Weathering, poses: Callable[[int], ph.Pose] | None = None) -> list[str]:
    """Digests of the messages after `Weather.apply` on each, offline."""
    found, first = [], stamp_and_frame(messages[0].data)[0]
    for message in messages:
        stamp = stamp_and_frame(message.data)[0]
        wet = job.weather.apply(
            RETURN_MESSAGES[message.type].read(message), sensor=job.lidar, seed=job.seed, frame=stamp,
            time=(stamp - first) * 1e-9, pose=None if poses is None else poses(stamp),
        )  # fmt: skip
        found.append(digest(RETURN_MESSAGES[message.type].write(message, wet)))
    return found


def play(
    bag: Path, job: Weathering, count: int, hz: float = 10.0, **options: Any
) -> tuple[dict[str, Any], LiveSummary]:
    """Report of the second program that plays a bag, and the summary of the node."""
    order = {"bag": str(bag), "topic": "/points", "heard": "/wet", "count": count, "hz": hz, "domain": DOMAIN}
    with (
        subprocess.Popen(
            [sys.executable, str(PLAYER), json.dumps(order | options)], stdout=subprocess.PIPE, text=True
        ) as player,
        DdsNode(DOMAIN, reliable=True) as node,
    ):
        made = WeatherNode(node, "/points", "/wet", job, queue=100)

        def ended(summary: LiveSummary) -> None:
            if player.poll() is not None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            made.run(60.0, ended)
        assert player.stdout is not None
        return json.loads(player.stdout.readline()), made.summary


def test_rain_on_a_played_bag(bag: Path, vlp16: ph.Lidar) -> None:
    job = Weathering(RAIN, vlp16, seed=5)
    job.warm_up()
    report, summary = play(bag, job, 20)
    messages = played(list(BagReader(bag).messages(["/points"])), 20, 10.0)
    assert report["stamps"] == [stamp_and_frame(one.data)[0] for one in messages]
    assert report["digests"] == expected(messages, job)
    assert (summary.received.count, summary.sent.count, summary.skipped) == (20, 20, 0)
    assert not summary.refused
    # A generous bound on a busy machine; `bench/run.py --only node` measures.
    assert np.median(report["latencies"]) < 0.5
    assert summary.sent.rate_hz == pytest.approx(summary.received.rate_hz, rel=0.2)


def test_fog_in_cells_follows_the_transforms(bag: Path, vlp16: ph.Lidar) -> None:
    job = Weathering(CELLS, vlp16, seed=5)
    job.warm_up()
    report, summary = play(bag, job, 6, tf=True, reliable=False)
    messages = played(list(BagReader(bag).messages(["/points"])), 6, 10.0)

    def pose(stamp_ns: int) -> ph.Pose:
        share = (stamp_ns - 1_699_999_999 * 10**9) / (10 * 10**9)
        return ph.Pose(xyz=(-3.0 + share * 30.0, 0.0, 0.0)) @ ph.Pose(xyz=(0.2, 0.0, 1.8))

    found = dict(zip(report["stamps"], report["digests"], strict=True))
    assert found  # a busy machine may lose clouds of a best-effort publisher
    stamps = [stamp_and_frame(one.data)[0] for one in messages]
    here, at_origin = (dict(zip(stamps, expected(messages, job, place), strict=True)) for place in (pose, None))
    assert found == {stamp: here[stamp] for stamp in found}
    assert found != {stamp: at_origin[stamp] for stamp in found}
    assert summary.without_pose == 0


@pytest.mark.parametrize(("name", "preset", "layout"), [
    ("vlp-16", "velodyne/vlp-16", "velodyne"), ("os1-128", "ouster/os1-128", "ouster"),
])  # fmt: skip
def test_recordings(name: str, preset: str, layout: str, tmp_path: Path) -> None:
    frames = list(read_frames(recording(name), model=preset if layout == "velodyne" else None))
    with BagWriter(tmp_path / "real.mcap") as writer:
        for number, scan in enumerate(frames):
            data = ros.point_cloud2(scan, "lidar", number * 10**8, layout)
            writer.write(Message("/points", ros.POINT_CLOUD, number, data))
    job = Weathering(RAIN, ph.Lidar(preset), seed=5)
    job.warm_up()
    report, _ = play(tmp_path / "real.mcap", job, 6, hz=3.0)
    messages = played(list(BagReader(tmp_path / "real.mcap").messages(["/points"])), 6, 3.0)
    assert report["stamps"] == [stamp_and_frame(one.data)[0] for one in messages]
    assert report["digests"] == expected(messages, job)


def laser_scan(number: int) -> Message:
    """LaserScan of a wall, with shots without a return."""
    rng = np.random.default_rng(number)
    ranges = np.where(rng.random(1081) < 0.1, np.inf, 8.0 + rng.random(1081)).astype(np.float32)
    message = new(
        LASER_SCAN, header=header(number, "laser"), angle_min=-2.356, angle_max=2.356, angle_increment=0.00436,
        time_increment=1.7e-5, scan_time=0.025, range_min=0.1, range_max=30.0, ranges=ranges,
        intensities=np.full(1081, 700.0, np.float32),
    )  # fmt: skip
    return Message("/points", LASER_SCAN, number, encode(LASER_SCAN, message))


def livox(number: int) -> Message:
    """CustomMsg of a wall, with points at 0, 0, 0."""
    kind, rng = LIVOX_MESSAGES[0], np.random.default_rng(number)
    y, z = rng.uniform(-5.0, 5.0, 2000), rng.uniform(-1.0, 4.0, 2000)
    x = np.where(rng.random(2000) < 0.1, 0.0, 12.0)
    points = [
        new(
            kind.replace("CustomMsg", "CustomPoint"), offset_time=50_000 * k, x=x[k], y=y[k] if x[k] else 0.0,
            z=z[k] if x[k] else 0.0, reflectivity=40, tag=16, line=k % 4,
        )
        for k in range(2000)
    ]  # fmt: skip
    message = new(
        kind, header=header(number, "livox_frame"), timebase=number, point_num=2000, lidar_id=3,
        rsvd=np.zeros(3, np.uint8), points=points,
    )  # fmt: skip
    return Message("/points", kind, number, encode(kind, message))


@pytest.mark.slow
@pytest.mark.parametrize(("made", "preset"), [(laser_scan, "hokuyo/utm-30lx"), (livox, "livox/mid-360")])
def test_other_messages(made: Callable[[int], Message], preset: str, tmp_path: Path) -> None:
    with BagWriter(tmp_path / "made.mcap") as writer:
        for number in range(3):
            writer.write(made(number))
    job = Weathering(ph.Weather(snow_rate_mm_h=5), ph.Lidar(preset), seed=5)
    job.warm_up()
    report, summary = play(tmp_path / "made.mcap", job, 6)
    messages = played(list(BagReader(tmp_path / "made.mcap").messages(["/points"])), 6, 10.0)
    assert report["stamps"] == [stamp_and_frame(one.data)[0] for one in messages]
    assert report["digests"] == expected(messages, job)
    assert report["digests"] != [digest(one.data) for one in messages]
    assert summary.sent.count == 6
    assert not summary.refused


# ---- without a network ----------------------------------------------------------------------------------------------


class Heard:
    """Subscription that delivers given messages in groups."""

    topic = "/points"

    def __init__(self, groups: list[list[bytes]]) -> None:
        self.groups = groups

    def wait(self, seconds: float) -> bool:
        return bool(self.groups)

    def take(self) -> list[bytes]:
        return [data for data, _ in self.take_timed()]

    def take_timed(self) -> list[tuple[bytes, int]]:
        return [(data, time.time_ns()) for data in (self.groups.pop(0) if self.groups else [])]


class StandIn(Node):
    """Node that records what is published."""

    def __init__(self, groups: list[list[bytes]], *publishers: Publisher) -> None:
        super().__init__(0, "lo", reliable=True)
        self.groups, self.known = groups, list(publishers)
        self.out: list[Message] = []
        self.subscribed: list[tuple[str, str, bool]] = []

    def _send(self, message: Message) -> bool:
        self.out.append(message)
        return True

    def _announce(self, topic: str, type_name: str, quality: Any) -> None: ...

    def subscribers(self, topic: str) -> int:
        return 0

    def subscribe(self, topic: str, type_name: str, quality: Any = None) -> Heard:
        self.subscribed.append((topic, type_name, quality.reliable))
        return Heard(self.groups if topic == "/points" else [])

    def publishers(self, topic: str) -> list[Publisher]:
        return self.known

    def close(self) -> None: ...


def ticking() -> Callable[[], float]:
    """Clock that advances by a hundredth of a second at each call."""
    now = [0.0]

    def read() -> float:
        now[0] += 0.01
        return now[0]

    return read


RELIABLE = Publisher(ros.POINT_CLOUD, True)


def test_newest_cloud_wins_and_skipped_ones_change_nothing(bag: Path, vlp16: ph.Lidar) -> None:
    messages = played(list(BagReader(bag).messages(["/points"])), 6, 10.0)
    data = [one.data for one in messages]
    job = Weathering(RAIN, vlp16, seed=5)
    whole = expected(messages, job)
    for queue, groups, heard, skipped in (
        (1, [[data[0]], data[1:4], [data[4], data[5]]], [0, 3, 5], 3),
        (2, [data[:3], [], data[3:6]], [1, 2, 4, 5], 2),
    ):
        node = StandIn([list(group) for group in groups], RELIABLE)
        made = WeatherNode(node, "/points", "/wet", Weathering(RAIN, vlp16, seed=5), queue=queue, now=ticking())
        made.run(2.0)
        assert [digest(one.data) for one in node.out] == [whole[number] for number in heard]
        assert (made.summary.skipped, made.summary.received.count) == (skipped, 6)
        assert {one.topic for one in node.out} == {"/wet"}


def test_clouds_with_one_stamp_have_draws_of_their_own(bag: Path, vlp16: ph.Lidar) -> None:
    data = next(iter(BagReader(bag).messages(["/points"]))).data
    node = StandIn([[data], [data]], RELIABLE)
    WeatherNode(node, "/points", "/wet", Weathering(RAIN, vlp16), now=ticking()).run(1.0)
    assert len({one.data for one in node.out}) == 2


def test_damaged_clouds_are_counted_and_others_go_on(bag: Path, vlp16: ph.Lidar) -> None:
    data = next(iter(BagReader(bag).messages(["/points"]))).data
    rng = np.random.default_rng(1)
    hostile = [b"", b"\0\1\0\0", data[:100], data[:-5000], *(rng.bytes(200) for _ in range(20))]
    node = StandIn([[one] for one in (*hostile, data)], RELIABLE)
    made = WeatherNode(node, "/points", "/wet", Weathering(RAIN, vlp16), now=ticking())
    made.run(3.0)
    assert len(node.out) == 1
    assert sum(made.summary.refused.values()) == len(hostile)


def test_type_and_quality_follow_the_publisher(vlp16: ph.Lidar) -> None:
    job = Weathering(RAIN, vlp16)
    node = StandIn([], Publisher(LASER_SCAN, False))
    WeatherNode(node, "/points", "/wet", job, now=ticking()).run(0.2)
    assert node.subscribed == [("/points", LASER_SCAN, False)]
    assert node.sent["/wet"].type == LASER_SCAN
    # A best-effort publisher that replaces a reliable one is heard as well.
    late = StandIn([], RELIABLE)
    made = WeatherNode(late, "/points", "/wet", job, now=ticking())
    made.run(0.2)
    late.known = [Publisher(ros.POINT_CLOUD, False)]
    made.run(3.0)
    assert late.subscribed == [("/points", ros.POINT_CLOUD, True), ("/points", ros.POINT_CLOUD, False)]
    for known, given, words in (
        ("sensor_msgs/msg/Imu", None, "carries sensor_msgs/msg/Imu"),
        (LASER_SCAN, ros.POINT_CLOUD, f"carries {LASER_SCAN}, not {ros.POINT_CLOUD}"),
    ):
        other = WeatherNode(StandIn([], Publisher(known, True)), "/points", "/wet", job, type_name=given, now=ticking())
        with pytest.raises(ConfigError, match=words):
            other.run(1.0)
    for bad in (
        {"topic_out": "/points"},
        {"topic_in": "/a b"},
        {"topic_out": "wet"},
        {"queue": 0},
        {"type_name": "sensor_msgs/msg/Imu"},
    ):
        with pytest.raises(ConfigError):
            WeatherNode(**{"node": node, "topic_in": "/points", "topic_out": "/wet", "job": job, **bad})


def test_no_kernel_is_compiled_after_the_warm_up(bag: Path) -> None:
    import drjit as dr

    def launched(work: Callable[[], None]) -> set[Any]:
        dr.kernel_history_clear()
        work()
        return {one["hash"] for one in dr.kernel_history((dr.KernelType.JIT,))}

    messages = played(list(BagReader(bag).messages(["/points"])), 3, 10.0)
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        for weather in (RAIN, CELLS, ph.Weather(snow_rate_mm_h=2), ph.Weather(rain_rate_mm_h=[[0, 0], [1, 10]])):
            job = Weathering(weather, ph.Lidar("velodyne/vlp-16"))
            warm = launched(job.warm_up)

            def stream(job: Weathering = job) -> None:
                for message in messages:
                    job.apply(RETURN_MESSAGES[message.type].read(message), stamp_and_frame(message.data)[0])

            live = launched(stream)
            assert live
            assert live <= warm
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)


def test_rhythm_is_that_of_ros2_topic_hz() -> None:
    rhythm = Rhythm()
    for moment in (0.0, 0.1, 0.19, 0.30):
        rhythm.add(moment)
    assert rhythm.rate_hz == pytest.approx(10.0)
    assert (rhythm.min_s, rhythm.max_s) == pytest.approx((0.09, 0.11))
    assert rhythm.std_s == pytest.approx(np.std([0.1, 0.09, 0.11]))
    assert rhythm.window == 4
    assert np.isnan(Rhythm().rate_hz)


def test_command(bag: Path, tmp_path: Path) -> None:
    """The command as users run it: every stamp, the bytes of the same command on the bag, the summary."""
    sensor = ["--sensor", "velodyne/vlp-16", "--rain", "25", "--seed", "5"]
    count = 10
    messages = played(list(BagReader(bag).messages(["/points"])), count, 10.0)
    with BagWriter(tmp_path / "dry.mcap") as writer:
        for number, message in enumerate(messages):
            writer.write(message._replace(time_ns=number))
    base = [sys.executable, "-m", "parhelion", "weather"]
    subprocess.run(
        [*base, tmp_path / "dry.mcap", "-o", tmp_path / "wet.mcap", *sensor], check=True, capture_output=True
    )
    live = ["--ros2", "/points", "/wet", "--domain", str(DOMAIN), "--queue", "100", "--duration", "60"]
    order = {"bag": str(bag), "topic": "/points", "heard": "/wet", "count": count, "hz": 10.0, "domain": DOMAIN}
    with subprocess.Popen(
        [*base, *live, *sensor], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs of a shell ignore it
    ) as node:  # fmt: skip
        try:
            player = [sys.executable, str(PLAYER), json.dumps(order)]
            found = subprocess.run(player, capture_output=True, text=True, check=True)
            node.send_signal(signal.SIGINT)
            out, err = node.communicate(timeout=30)
        finally:
            node.kill()
    report = json.loads(found.stdout)
    assert report["stamps"] == [stamp_and_frame(one.data)[0] for one in messages]
    assert report["digests"] == [digest(one.data) for one in BagReader(tmp_path / "wet.mcap").messages(["/points"])]
    assert node.returncode == 130, err
    assert "average rate [Hz]" in out
    assert f"skipped  0 of {count} clouds" in out
