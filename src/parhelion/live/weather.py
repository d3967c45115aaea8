"""Weather on live data: clouds of a ROS 2 topic, or the UDP packets of a lidar, in; the same ones in weather out."""

from __future__ import annotations

import ctypes
import math
import re
import socket
import threading
import time as wall
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.core.random import repeated
from parhelion.io.ros.returns import RETURN_MESSAGES, stamp_and_frame
from parhelion.io.ros.transforms import TF_MESSAGE, TransformTree
from parhelion.io.ros.types import Message
from parhelion.live.dds import Node, Quality, TopicSubscription, check_topic
from parhelion.live.udp import TimedSender, checked_host, checked_port
from parhelion.makers import LOOPBACK, Datagram, codecs
from parhelion.makers.codec import Metadata
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.weather.air import air_contents
from parhelion.weather.weather import Weather

WINDOW = 10_000
"""Number of messages over which rates and latencies are computed, as in `ros2 topic hz`."""
TF_WAIT_S = 0.05
"""Longest time [s] that a cloud waits for the transform at its stamp."""
_TF_KEEP_S = 30.0
_POLL_S = 0.05
_DEPTH = 10
"""History depth of the input: clouds that arrive while one is processed."""
_RECEIVE_BYTES = 64 << 20
_LONGEST_DATAGRAM = 65536


# ---- rates and counts ----------------------------------------------------------------------------------------------


class Rhythm:
    """Rate of messages over the last `WINDOW` of them, with the numbers of `ros2 topic hz`."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=WINDOW)
        self.count = 0

    def add(self, time_s: float) -> None:
        """Record a message at a time [s]."""
        self._times.append(time_s)
        self.count += 1

    @property
    def intervals(self) -> NDArray[np.float64]:
        """Times between messages [s]."""
        return np.diff(np.array(self._times))

    @property
    def rate_hz(self) -> float:
        """Mean rate; NaN with fewer than two messages."""
        return float(1.0 / self.intervals.mean()) if len(self._times) > 1 else math.nan

    @property
    def min_s(self) -> float:
        """Shortest interval."""
        return float(self.intervals.min(initial=math.inf))

    @property
    def max_s(self) -> float:
        """Longest interval."""
        return float(self.intervals.max(initial=0.0))

    @property
    def std_s(self) -> float:
        """Standard deviation of the intervals."""
        return float(self.intervals.std()) if len(self._times) > 1 else math.nan

    @property
    def window(self) -> int:
        """Number of messages that the other numbers describe."""
        return len(self._times)


@dataclass
class LiveSummary:
    """Counts of a run on live data."""

    received: Rhythm = field(default_factory=Rhythm)
    sent: Rhythm = field(default_factory=Rhythm)
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """Time from sending of each cloud to publishing of the same in weather."""
    skipped: int = 0
    """Clouds that arrived while earlier ones were processed, and were dropped for a newer one."""
    lost: int = 0
    """Messages that the network lost, as far as known."""
    refused: Counter[str] = field(default_factory=Counter)
    """Messages that could not be processed, by reason."""
    dropped: int = 0
    """Clouds that a reliable subscriber did not accept in time."""
    without_pose: int = 0
    """Clouds for whose stamp no transform arrived in time; the last known one, or the origin, was used."""
    points_in: int = 0
    points_out: int = 0
    notes: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Limitations by their text without numbers: the first one, and the number of clouds."""

    def latency_s(self, percent: float) -> float:
        """Percentile of the latencies; NaN without any."""
        return float(np.percentile(self.latencies_s, percent)) if self.latencies_s else math.nan

    def count(self, before: PointCloud, after: PointCloud) -> None:
        """Add a processed cloud."""
        self.points_in += int(np.isfinite(before.xyz[:, 0]).sum())
        self.points_out += int(np.isfinite(after.xyz[:, 0]).sum())
        for note in after.metadata.get("weather_notes", ()):
            words = re.sub(r"\d+", "#", note)
            first, clouds = self.notes.get(words, (note, 0))
            self.notes[words] = first, clouds + 1


# ---- clouds --------------------------------------------------------------------------------------------------------


@dataclass
class Weathering:
    """Weather for a stream of clouds of one lidar, each with the random draws of its stamp.

    Draws depend on seed and stamp only, so that skipped clouds change nothing, and a recording of the same clouds gives
    the same bytes. Clouds that repeat the stamp of the one before have draws of their own.
    """

    weather: Weather
    lidar: Lidar
    seed: int = 0
    start_s: float = 0.0
    """Time of the first cloud in the schedules of the weather [s]."""
    pose: Pose | None = None
    """Fixed pose of the sensor; None for that of the transforms."""
    reflectance: float | None = None
    no_returns: str = "auto"
    zero_ns: int | None = None
    """Stamp [ns] of time `start_s`; by default that of the first cloud."""
    _last: int = field(default=-1, repr=False)
    _repeats: int = field(default=0, repr=False)

    @property
    def needs_pose(self) -> bool:
        """True if the weather differs from place to place."""
        times = [self.start_s, *_schedule_times(self.weather)]
        return any(not air_contents(self.weather, time, self.lidar.config.wavelength_nm).is_uniform for time in times)

    def apply(
        self, cloud: PointCloud, stamp_ns: int, pose: Pose | None = None, number: int | None = None
    ) -> PointCloud:
        """Cloud in weather; `pose` is that of the sensor at the stamp [ns], `number` replaces the stamp in draws."""
        self.zero_ns = stamp_ns if self.zero_ns is None else self.zero_ns
        number = stamp_ns if number is None else number
        self._repeats = self._repeats + 1 if number == self._last else 0
        self._last = number
        frame = repeated(number, self._repeats) if self._repeats else number
        return self.weather.apply(
            cloud,
            sensor=self.lidar,
            seed=self.seed,
            frame=max(frame, 0),
            pose=self.pose or pose,
            time=self.start_s + (stamp_ns - self.zero_ns) * 1e-9,
            reflectance=self.reflectance,
            no_returns=self.no_returns,
        )

    def warm_up(self, example: PointCloud | None = None) -> None:
        """Compile the kernels of all media of the weather, which takes up to a second each.

        `example` is a cloud like those of the stream; by default, clouds of the sensor's pattern are used.
        """
        clouds = _examples(self.lidar) if example is None else [example]
        for time in (self.start_s, *_schedule_times(self.weather)):
            for cloud in clouds:
                self.weather.apply(
                    cloud,
                    sensor=self.lidar,
                    time=time,
                    pose=self.pose or Pose(xyz=(1.0, 2.0, 3.0)),
                    reflectance=self.reflectance or (None if "intensity" in cloud.fields else 0.5),
                    no_returns=self.no_returns,
                )


def _schedule_times(weather: Weather) -> list[float]:
    """Times [s] at which amounts of a weather change their course, at most 16."""
    times: set[float] = set()
    for medium, part, _ in weather.parts():
        amount = getattr(part, medium.amount.field, None)
        if isinstance(amount, (list, tuple)):
            times |= {float(entry[0]) for entry in amount if isinstance(entry, (list, tuple))}
    return sorted(times)[:16]


def _examples(lidar: Lidar) -> list[PointCloud]:
    """Clouds with the fields of a driver: with all shots, and with rows for shots without a return."""
    shots = lidar.shots(0.0)
    count = len(shots)
    range_m = np.float32(0.5 * min(lidar.config.range.max_m, 40.0))
    fields: dict[str, NDArray[Any]] = {
        "intensity": np.full(count, 20.0, np.float32),
        "ring": shots.ring,
        "time": shots.time.astype(np.float32),
        "range": np.full(count, range_m),
    }
    xyz = shots.direction.astype(np.float32) * range_m
    whole = PointCloud(xyz, fields)
    some = np.arange(count) % 8 != 0
    return [whole.select(some), PointCloud(np.where(some[:, None], xyz, np.float32(np.nan)), fields)]


def keep_freed_memory() -> None:
    """Let this process reuse the memory of large arrays instead of returning it to the system after each cloud.

    The kernel clears returned pages: with clouds of 6 MB, that takes a quarter of the time for writing. glibc only.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, size in _MALLOC_OPTIONS.items():
            set_option(ctypes.c_int(option), ctypes.c_int(size))


_MALLOC_OPTIONS = {-3: 32 << 20, -1: 512 << 20}
"""M_MMAP_THRESHOLD, at the largest value that glibc accepts, and M_TRIM_THRESHOLD [bytes]; from malloc.h."""


# ---- ROS 2 ---------------------------------------------------------------------------------------------------------


class WeatherNode:
    """ROS 2 node that publishes the clouds of a topic in weather.

        with DdsNode(domain=0, reliable=True) as node:
            weather = WeatherNode(node, "/velodyne_points", "/noisy_points", Weathering(rain, lidar))
            summary = weather.run(seconds=60)

    Message types are those of `RETURN_MESSAGES`. Of the clouds that wait, the newest `queue` ones are processed, in
    order, and the others are skipped.
    """

    def __init__(
        self,
        node: Node,
        topic_in: str,
        topic_out: str,
        job: Weathering,
        *,
        type_name: str | None = None,
        queue: int = 1,
        fixed_frame: str | None = None,
        now: Callable[[], float] = wall.monotonic,
    ) -> None:
        """Create the node; without `type_name`, the type is that of the first publisher of `topic_in`."""
        check_topic(topic_in)
        check_topic(topic_out)
        if topic_in == topic_out:
            raise ConfigError(f"weather: {topic_in} cannot be the input and the output")
        if not 1 <= queue <= 1000:
            raise ConfigError(f"weather: queue must be from 1 to 1000, got {queue}")
        if type_name is not None and type_name not in RETURN_MESSAGES:
            raise ConfigError(f"weather: {type_name} has no lidar returns; known types: {', '.join(RETURN_MESSAGES)}")
        self.node, self.topic_in, self.topic_out, self.job = node, topic_in, topic_out, job
        self.type_name = type_name
        self.summary = LiveSummary()
        self._queue, self._fixed, self._now = queue, fixed_frame, now
        self._input: TopicSubscription | None = None
        self._best_effort = False
        self._heard = -math.inf
        self._publisher: ThreadPoolExecutor | None = None
        self._sending: Future[None] | None = None
        self._tree = TransformTree(_TF_KEEP_S)
        self._transforms: list[tuple[TopicSubscription, bool]] = []
        if job.pose is None and job.needs_pose:
            static = Quality(reliable=True, latched=True, depth=100)
            self._transforms = [
                (node.subscribe("/tf", TF_MESSAGE, Quality(reliable=True, depth=1000)), False),
                (node.subscribe("/tf_static", TF_MESSAGE, static), True),
            ]
        if type_name is not None:
            node.advertise(topic_out, type_name)

    def run(self, seconds: float = math.inf, check: Callable[[LiveSummary], None] = lambda _: None) -> LiveSummary:
        """Process clouds for a time [s]; `check` is called often, and may raise KeyboardInterrupt."""
        until = self._now() + seconds
        waiting: deque[tuple[bytes, int]] = deque()
        # Publishing waits for the network and copies megabytes without the interpreter lock, so it has a thread.
        with ThreadPoolExecutor(1, "publisher") as self._publisher:
            while (left := until - self._now()) > 0:
                check(self.summary)
                if not self._connected():
                    wall.sleep(min(0.02, left))
                    continue
                assert self._input is not None
                if not waiting:
                    self._input.wait(min(_POLL_S, left))
                for item in self._input.take_timed():
                    self._heard = self._now()
                    self.summary.received.add(self._heard)
                    waiting.append(item)
                while len(waiting) > self._queue:
                    waiting.popleft()
                    self.summary.skipped += 1
                if waiting:
                    self.process(*waiting.popleft())
            self._published()
        self.summary.lost = int(getattr(self._input, "lost", 0))
        return self.summary

    def _connected(self) -> bool:
        """Subscribe once a publisher is known, with its type and a quality of service that matches it."""
        if self._input is not None and (self._best_effort or self._now() - self._heard < 1.0):
            return True
        there = self.node.publishers(self.topic_in)
        known = [one for one in there if one.type in RETURN_MESSAGES]
        if there and not known:
            raise ConfigError(
                f"{self.topic_in}: carries {there[0].type}, which has no lidar returns; known types: "
                f"{', '.join(RETURN_MESSAGES)}"
            )
        wanted = [one for one in known if self.type_name in (None, one.type)]
        if known and not wanted:
            raise ConfigError(f"{self.topic_in}: carries {known[0].type}, not {self.type_name}")
        self._heard = self._now()
        if not wanted or (self._input is not None and all(one.reliable for one in wanted)):
            return self._input is not None
        self.type_name = wanted[0].type
        self._best_effort = not all(one.reliable for one in wanted)
        quality = Quality(reliable=not self._best_effort, depth=max(_DEPTH, self._queue))
        # A reliable subscription does not match best-effort publishers; one that is no longer used stays empty.
        self._input = self.node.subscribe(self.topic_in, self.type_name, quality)
        self.node.advertise(self.topic_out, self.type_name)
        return True

    def process(self, data: bytes, sent_ns: int) -> None:
        """Publish one message in weather; one that cannot be processed is counted with the reason."""
        assert self.type_name is not None
        kind = RETURN_MESSAGES[self.type_name]
        message = Message(self.topic_in, self.type_name, sent_ns, data)
        try:
            stamp_ns, frame = stamp_and_frame(data)
            cloud = kind.read(message)
            wet = self.job.apply(cloud, stamp_ns, self._pose(frame, stamp_ns))
            out = message._replace(topic=self.topic_out, data=kind.write(message, wet))
        except (ConfigError, FormatError) as error:
            self.summary.refused[str(error).removeprefix(f"{self.topic_in}: ")] += 1
            return
        self._published()
        if self._publisher is None:
            self._publish(out, sent_ns)
        else:
            self._sending = self._publisher.submit(self._publish, out, sent_ns)
        self.summary.count(cloud, wet)

    def _published(self) -> None:
        """Wait until the previous cloud is published, and raise the error of its publication."""
        if self._sending is not None:
            self._sending.result()
            self._sending = None

    def _publish(self, message: Message, sent_ns: int) -> None:
        if not self.node.publish(message):
            self.summary.dropped += 1
            return
        self.summary.latencies_s.append((wall.time_ns() - sent_ns) * 1e-9)
        self.summary.sent.add(self._now())

    def _pose(self, frame: str, stamp_ns: int) -> Pose | None:
        """Pose of the sensor at a stamp, for which the cloud waits a moment; None if it is not needed or unknown."""
        if not self._transforms:
            return None
        until = self._now() + TF_WAIT_S
        while True:
            for received, static in self._transforms:
                for data in received.take():
                    self._tree.add(data, static=static)
            if self._tree.reaches(frame, stamp_ns, self._fixed):
                break
            if self._now() >= until:
                self.summary.without_pose += 1
                break
            wall.sleep(0.001)
        return self._tree.pose(frame, stamp_ns, self._fixed)


# ---- UDP -----------------------------------------------------------------------------------------------------------


_HOUR_S = 3600.0


def _on_its_clock(scan: PointCloud) -> Scan:
    """Scan with a start time on the clock of a sensor that counts within the hour, whose clock may not be set."""
    assert isinstance(scan, Scan)
    clock_us = scan.metadata.get("time_of_hour_us")
    if clock_us is None:
        return scan
    within = int(clock_us) * 1e-6
    return replace(scan, start_time=round((scan.start_time - within) / _HOUR_S) * _HOUR_S + within)


class WeatherUdp:
    """Relay of the UDP packets of one lidar to another port, in weather, so that its driver sees the weather.

        with WeatherUdp(Weathering(rain, ph.Lidar("velodyne/vlp-16")), 2368, 12368) as relay:
            summary = relay.run(seconds=60)

    Each revolution is decoded, weathered and encoded again. Its packets are sent at the times of the sensor's clock, so
    they arrive about one revolution late. Packets of other kinds, which sensors send to other ports, need no relay.
    """

    def __init__(
        self,
        job: Weathering,
        port_in: int,
        port_out: int,
        *,
        host: str = LOOPBACK,
        listen: str = LOOPBACK,
        metadata: Metadata | PathLike[str] | None = None,
        queue: int = 1,
        allow_remote: bool = False,
        now: Callable[[], float] = wall.monotonic,
    ) -> None:
        """Open the sockets: packets to `listen`:`port_in` are received, weathered ones are sent to `host`:`port_out`.

        `metadata` is the sensor's own description or its file, for makers whose packets cannot be decoded without it.
        """
        maker = job.lidar.config.maker
        if maker not in codecs():
            raise ConfigError(f"weather: packets of {job.lidar.model} are not known, only of {', '.join(codecs())}")
        self.codec, self.job, self.summary = codecs()[maker], job, LiveSummary()
        if self.codec.uses_metadata and metadata is None:
            raise ConfigError(f"weather: {self.codec.title} packets need the sensor's metadata (--metadata FILE.json)")
        self.port_in, self.port_out = checked_port("udp_in", port_in), checked_port("udp_out", port_out)
        host, listen = checked_host(host, allow_remote), checked_host(listen, allow_remote)
        if port_in == port_out and (host == listen or listen == "0.0.0.0"):
            raise ConfigError(f"weather: the port {port_in} cannot be the input and the output")
        known = self.codec.read_metadata(metadata) if isinstance(metadata, PathLike) else metadata
        self._metadata, self._queue, self._now = known, queue, now
        self._is_lidar = self.codec.recogniser(known)
        self._model = job.lidar.model if self.codec.knows(job.lidar.model) else None
        self._stream = self.codec.stream(job.lidar.model, metadata=known)
        self._frames: deque[tuple[Scan, float]] = deque()
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self.others = 0
        """Datagrams of other senders or kinds, which are ignored."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            self._socket.settimeout(_POLL_S)
            self._socket.bind((listen, port_in))
            self._sender = TimedSender(host, allow_remote=allow_remote)
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"udp_in: the port {port_in} cannot be opened ({error.strerror})") from None
        self._thread = threading.Thread(target=self._receive, name="parhelion-udp-in", daemon=True)
        self._thread.start()

    def run(self, seconds: float = math.inf, check: Callable[[LiveSummary], None] = lambda _: None) -> LiveSummary:
        """Relay packets for a time [s]; `check` is called often, and may raise KeyboardInterrupt."""
        until = self._now() + seconds
        while (left := until - self._now()) > 0:
            check(self.summary)
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                if not self._frames:
                    self._changed.wait(min(_POLL_S, left))
                while len(self._frames) > self._queue:
                    self._frames.popleft()
                    self.summary.skipped += 1
                item = self._frames.popleft() if self._frames else None
            if item is not None:
                self.process(*item)
        return self.summary

    def process(self, scan: Scan, arrived_s: float) -> None:
        """Send the packets of one revolution in weather."""
        try:
            # The hour of a sensor's clock may follow from the time of receiving, so draws depend on the rest only.
            clock_us = int(scan.metadata.get("time_of_hour_us", round(scan.start_time * 1e6)))
            wet = self.job.apply(scan, round(scan.start_time * 1e6) * 1000, number=clock_us)
            packets = self._stream.add(_on_its_clock(wet))
        except (ConfigError, FormatError) as error:
            self.summary.refused[str(error)] += 1
            return
        self._send(packets)
        self.summary.latencies_s.append(self._now() - arrived_s)
        self.summary.sent.add(self._now())
        self.summary.count(scan, wet)

    def _send(self, packets: list[Datagram]) -> None:
        target = (self._sender.host, self.port_out)
        self._sender.send(one._replace(target=target) for one in packets if self._is_lidar(one.payload))

    def _receive(self) -> None:
        """Decode frames; the decoder waits for packets."""
        try:
            for scan in self.codec.frames(
                self._datagrams(), model=self._model, metadata=self._metadata, source=f"port {self.port_in}"
            ):
                arrived = self._now()
                with self._changed:
                    self.summary.received.add(arrived)
                    self._frames.append((scan, arrived))
                    self._changed.notify_all()
        except Exception as error:
            with self._changed:
                nothing = isinstance(error, FormatError) and self._stop.is_set()
                self._failure = None if nothing else error

    def _datagrams(self) -> Iterator[Datagram]:
        sensor: Any = None
        target = (LOOPBACK, self.port_in)
        while not self._stop.is_set():
            try:
                payload, source = self._socket.recvfrom(_LONGEST_DATAGRAM)
            except TimeoutError:
                continue
            except OSError:
                return
            if not self._is_lidar(payload) or (sensor or source[0]) != source[0]:
                self.others += 1
                continue
            sensor = source[0]
            yield Datagram(wall.time(), payload, source, target)

    def close(self) -> None:
        """Stop, after the packets that wait were sent. Closing twice is allowed."""
        self._stop.set()
        self._thread.join(5.0)
        self._socket.close()
        try:
            self._send(self._stream.finish())
            self._sender.close()
        except ParhelionError:
            self._sender.close(drain=False)

    def __enter__(self) -> WeatherUdp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
