"""Live part of `parhelion weather`: the node on ROS 2 topics, the relay of UDP packets, and their summary."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parhelion.cli import screen
from parhelion.cli.screen import start_engine, stop_if_interrupted, warn
from parhelion.cli.weather_options import in_words
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion import Pose, Weather
    from parhelion.live.weather import LiveSummary, Rhythm, Weathering, WeatherNode, WeatherUdp


@dataclass(frozen=True)
class Live:
    """Options for live data."""

    topics: tuple[str, str] | None
    rclpy: bool
    domain: int
    interface: str
    type: str | None
    udp_in: int | None
    udp_out: str | None
    metadata: Path | None
    anywhere: bool
    queue: int
    duration_s: float | None
    fixed_frame: str | None


def run(
    live: Live,
    weather: Weather,
    sensor: str | None,
    seed: int,
    time: float,
    pose: Pose | None,
    reflectance: float | None,
    no_returns: str,
) -> None:
    """Apply weather to live data until the duration is over or Ctrl-C, then print the summary."""
    from parhelion import Lidar
    from parhelion.live.weather import Weathering, keep_freed_memory

    if live.topics is not None and (live.udp_in is not None or live.udp_out is not None):
        raise typer.BadParameter("give --ros2 or --udp-in, not both", param_hint="--udp-in")
    if live.topics is None and (live.udp_in is None or live.udp_out is None):
        missing = "--udp-in" if live.udp_in is None else "--udp-out"
        raise typer.BadParameter("--udp-in and --udp-out go together", param_hint=missing)
    if sensor is None:
        raise typer.BadParameter("live data do not name their sensor", param_hint="--sensor")
    job = Weathering(weather, Lidar(sensor), seed, time, pose, reflectance, no_returns)
    start_engine()
    with screen.progress("compiling", None):
        job.warm_up()
    # Objects that live until the end are not searched again, because a search takes tens of milliseconds.
    gc.collect()
    gc.freeze()
    keep_freed_memory()
    with _ros(live, job) if live.topics is not None else _udp(live, job) as flow:
        try:
            with _progress(in_words(weather)) as show:
                flow.run(math.inf if live.duration_s is None else live.duration_s, show)
        finally:
            _print_summary(flow.summary, in_words(weather), udp=live.topics is None)


@contextmanager
def _ros(live: Live, job: Weathering) -> Iterator[WeatherNode]:
    from parhelion.live.dds import DdsNode
    from parhelion.live.ros import RclpyNode
    from parhelion.live.weather import WeatherNode

    assert live.topics is not None
    kind: type[DdsNode] | type[RclpyNode] = RclpyNode if live.rclpy else DdsNode
    with kind(live.domain, live.interface, reliable=True) as node:
        made = WeatherNode(
            node, *live.topics, job, type_name=_full_type(live.type), queue=live.queue, fixed_frame=live.fixed_frame
        )
        screen.print_line(f"{live.topics[0]} -> {live.topics[1]}, domain {live.domain} on {live.interface}")
        yield made


@contextmanager
def _udp(live: Live, job: Weathering) -> Iterator[WeatherUdp]:
    from parhelion.live.weather import WeatherUdp
    from parhelion.makers import LOOPBACK

    assert live.udp_in is not None
    host, _, port = (live.udp_out or "").rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"--udp-out: give [HOST:]PORT with a port from 1 to 65535, got {live.udp_out!r}")
    with WeatherUdp(
        job,
        live.udp_in,
        int(port),
        host=host or LOOPBACK,
        listen="0.0.0.0" if live.anywhere else LOOPBACK,
        metadata=live.metadata,
        queue=live.queue,
        allow_remote=live.anywhere,
    ) as made:
        screen.print_line(f"UDP port {live.udp_in} -> {host or LOOPBACK}:{port}, {made.codec.title} packets")
        yield made


def _full_type(name: str | None) -> str | None:
    """Message type with its package, from a short name such as LaserScan."""
    from parhelion.io.ros.returns import RETURN_MESSAGES

    return next((known for known in RETURN_MESSAGES if known.rpartition("/")[2] == name), name)


# ---- messages ------------------------------------------------------------------------------------------------------


@contextmanager
def _progress(words: str) -> Iterator[Callable[[LiveSummary], None]]:
    """Show a line with rate and latency on stderr while the block runs, on terminals only."""
    from rich.progress import Progress, TextColumn

    out = screen.console(stderr=True)
    column = TextColumn("{task.description}", markup=False)
    with Progress(column, console=out, transient=True, disable=not out.is_terminal, refresh_per_second=4) as bar:
        task = bar.add_task(words)
        shown = -1

        def show(summary: LiveSummary) -> None:
            nonlocal shown
            stop_if_interrupted()
            if out.is_terminal and summary.sent.count != shown and summary.sent.count % 5 == 0:
                shown = summary.sent.count
                rate, late = summary.sent.rate_hz, 1e3 * summary.latency_s(50)
                bar.update(task, description=f"{words}: {shown} clouds, {rate:.2f} Hz, {late:.0f} ms behind")

        yield show


def _print_summary(summary: LiveSummary, words: str, *, udp: bool) -> None:
    """Rates as in `ros2 topic hz`, latencies and counts."""

    def row(name: str, one: Rhythm) -> tuple[str, ...]:
        if one.window < 2:
            return name, "-", "-", "-", "-", str(one.window)
        return name, f"{one.rate_hz:.3f}", f"{one.min_s:.3f}", f"{one.max_s:.3f}", f"{one.std_s:.5f}", str(one.window)

    columns = ("", "average rate [Hz]", "min [s]", "max [s]", "std dev [s]", "window")
    screen.table(words, columns, [row("in", summary.received), row("out", summary.sent)], numbers=columns[1:])
    late = [f"{1e3 * summary.latency_s(percent):.1f} ms ({name})" for percent, name in _LATENCIES]
    since = "from the last packet of a frame" if udp else "from sending of the cloud"
    rows = [
        ("latency", f"{', '.join(late)}, {since}" if summary.latencies_s else "no clouds"),
        ("skipped", f"{summary.skipped} of {summary.received.count} clouds"),
        ("points", f"{screen.count(summary.points_in)} in, {screen.count(summary.points_out)} out"),
    ]
    if summary.lost:
        rows.append(("lost", f"{summary.lost} messages on the way to the node"))
    if summary.dropped:
        rows.append(("dropped", f"{summary.dropped} clouds that a reliable subscriber did not read in time"))
    if summary.without_pose:
        rows.append(("no transform", f"{summary.without_pose} clouds; the last known pose or the origin was used"))
    screen.facts("", rows)
    for note, clouds in summary.notes.values():
        screen.print_line(f"note: {note}" + (f" (the same in {clouds} clouds)" if clouds > 1 else ""))
    for reason, count in summary.refused.items():
        warn(f"{count} clouds were not processed: {reason}")
    if not summary.received.count:
        warn("nothing was received; check the topic, the domain and the interface, or the port")


_LATENCIES = ((50, "median"), (99, "99 %"), (100, "max"))
