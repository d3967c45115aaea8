"""`parhelion stream`: a scenario in real time, to ROS 2 and other programs that listen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.engine import start_engine
from parhelion.cli.failures import Command, warn
from parhelion.cli.interrupt import stop_if_interrupted
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.live.pacing import Outlet, Stream, StreamSummary
    from parhelion.scenario.scenario import Scenario

EXAMPLES = (
    "parhelion stream scenario.yaml --ros2                            # topics as the real drivers have them",
    "parhelion stream scenario.yaml --ros2 --reliable --loop",
    "parhelion stream scenario.yaml --ros2 --cmd-vel husky            # /cmd_vel drives the vehicle husky",
    "parhelion stream scenario.yaml --ros2 --cmd-vel husky=/husky/cmd_vel --domain 7",
    "parhelion stream scenario.yaml --velodyne-udp                    # packets to 127.0.0.1:2368",
    "parhelion stream scenario.yaml --ouster-udp 127.0.0.1:7502 --ouster-http 8088 --foxglove",
    "parhelion stream scenario.yaml --rclpy --interface any           # through the ROS 2 that is installed",
)
OPEN_LOOP_AHEAD_S, CLOSED_LOOP_AHEAD_S = 0.6, 0.2
DEFAULT_TARGETS = {
    "--velodyne-udp": "127.0.0.1:2368",
    "--ouster-udp": "127.0.0.1:7502",
    "--ouster-http": "8088",
    "--foxglove": "8765",
}
"""Options whose value may be left out."""
_TARGET = re.compile(r"(?:[A-Za-z0-9.-]*:)?\d{1,5}")


class StreamCommand(Command):
    """A command some of whose options may stand without their value."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Put in the values that were left out."""
        full = []
        for place, word in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else ""
            bare = word in DEFAULT_TARGETS and not _TARGET.fullmatch(following)
            full.append(f"{word}={DEFAULT_TARGETS[word]}" if bare else word)
        return super().parse_args(ctx, full)


COMMAND = StreamCommand


@dataclass
class Choices:
    """What the user asked for, as far as outlets need to know."""

    ros: bool
    rclpy: bool
    domain: int
    interface: str
    reliable: bool
    velodyne_udp: str | None
    ouster_udp: str | None
    ouster_http: str | None
    foxglove: str | None
    foxglove_origins: list[str]
    anywhere: bool
    ahead_s: float


def _ros(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.dds import DdsNode
    from parhelion.live.ros import RclpyNode, RosOutlet
    from parhelion.scenario.schema import BagOutput

    # The stream has the topics, frames and fields that the scenario's bag has.
    bag = next((entry for entry in scenario.settings.outputs if isinstance(entry, BagOutput)), BagOutput(kind="bag"))
    kind = RclpyNode if choices.rclpy else DdsNode
    node = kind(choices.domain, choices.interface, reliable=choices.reliable)
    try:
        return RosOutlet(
            scenario, node, topics=bag.topics, frames=bag.frames, layout=bag.layout, images=bag.images,
            epoch_s=bag.epoch_s, batch_s=choices.ahead_s / 2,
        )  # fmt: skip
    except BaseException:
        node.close()
        raise


def _velodyne(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.velodyne_udp import VelodyneUdp

    host, port = _address("--velodyne-udp", choices.velodyne_udp)
    return VelodyneUdp(scenario, host, port, allow_remote=choices.anywhere)


def _ouster(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.ouster_udp import OusterUdp

    host, port = _address("--ouster-udp", choices.ouster_udp)
    http_port = None if choices.ouster_http is None else _address("--ouster-http", choices.ouster_http)[1]
    return OusterUdp(scenario, host, port, port + 1, http_port=http_port, allow_remote=choices.anywhere)


def _foxglove(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.foxglove import FoxgloveServer

    host, port = _address("--foxglove", choices.foxglove)
    return FoxgloveServer(scenario, host, port, allow_remote=choices.anywhere, origins=choices.foxglove_origins)


OUTLETS: dict[str, tuple[Callable[[Choices], object], Callable[[Scenario, Choices], Outlet]]] = {
    "ROS 2": (lambda choices: choices.ros or choices.rclpy, _ros),
    "Velodyne UDP": (lambda choices: choices.velodyne_udp, _velodyne),
    "Ouster UDP": (lambda choices: choices.ouster_udp, _ouster),
    "Foxglove": (lambda choices: choices.foxglove, _foxglove),
}
"""By name: whether it is asked for, and what opens it."""


def stream(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="Scenario file (.yaml).")],
    ros2: Annotated[bool, typer.Option("--ros2", help="Publish ROS 2 topics over DDS; needs no ROS.")] = False,
    rclpy: Annotated[bool, typer.Option("--rclpy", help="Publish them through the ROS 2 that is installed.")] = False,
    domain: Annotated[
        int, typer.Option("--domain", metavar="ID", envvar="ROS_DOMAIN_ID", help="ROS 2 domain, 0 to 232.")
    ] = 0,
    interface: Annotated[
        str, typer.Option("--interface", metavar="NAME", help="Network interface for ROS 2; 'any' lets DDS choose.")
    ] = "lo",
    reliable: Annotated[bool, typer.Option("--reliable", help="Sensor data reliable, not best effort.")] = False,
    cmd_vel: Annotated[
        list[str] | None,
        typer.Option("--cmd-vel", metavar="VEHICLE[=TOPIC]", help="Drive a vehicle by Twist messages (/cmd_vel)."),
    ] = None,
    velodyne_udp: Annotated[
        str | None, typer.Option("--velodyne-udp", metavar="[HOST:PORT]", help="Send a Velodyne's packets.")
    ] = None,
    ouster_udp: Annotated[
        str | None, typer.Option("--ouster-udp", metavar="[HOST:PORT]", help="Send an Ouster's packets.")
    ] = None,
    ouster_http: Annotated[
        str | None, typer.Option("--ouster-http", metavar="[PORT]", help="Serve its metadata, as the sensor does.")
    ] = None,
    foxglove: Annotated[
        str | None, typer.Option("--foxglove", metavar="[PORT]", help="Serve Foxglove on this machine.")
    ] = None,
    foxglove_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--foxglove-origin", metavar="SITE", help="Let pages of this site in, as https://app.foxglove.dev."
        ),
    ] = None,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Allow UDP and Foxglove to go beyond this machine.")
    ] = False,
    speed: Annotated[float, typer.Option("--speed", min=0.001, max=1000, help="Simulated seconds a second.")] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="Begin anew at the end, until Ctrl-C.")] = False,
    ahead: Annotated[
        float | None,
        typer.Option(
            "--ahead", metavar="S", min=0, max=60, help="Time to measure ahead; by default 0.6, with --cmd-vel 0.2."
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="S", min=0, max=3600, help="Wait for a subscriber of ROS 2 at first, at most S."
        ),
    ] = 0.0,
) -> None:
    """Stream a scenario in real time: to ROS 2, as packets of the real sensors, to Foxglove.

    All of it stays on this machine unless an interface or --anywhere says otherwise. Ctrl-C ends it.
    """
    if ahead is None:
        ahead = CLOSED_LOOP_AHEAD_S if cmd_vel else OPEN_LOOP_AHEAD_S
    choices = Choices(
        ros2, rclpy, domain, interface, reliable, velodyne_udp, ouster_udp, ouster_http, foxglove,
        foxglove_origin or [], anywhere, ahead,
    )  # fmt: skip
    chosen = {name: make for name, (asked, make) in OUTLETS.items() if asked(choices)}
    if not chosen:
        raise typer.BadParameter("say where to stream, as with --ros2", param_hint="SCENARIO")
    if (cmd_vel or wait) and "ROS 2" not in chosen:
        raise typer.BadParameter("needs --ros2 or --rclpy", param_hint="--cmd-vel" if cmd_vel else "--wait")
    if ouster_http and not ouster_udp:
        raise typer.BadParameter("needs --ouster-udp", param_hint="--ouster-http")
    if foxglove_origin and not foxglove:
        raise typer.BadParameter("needs --foxglove", param_hint="--foxglove-origin")
    if speed != 1.0 and (velodyne_udp or ouster_udp):
        raise typer.BadParameter("packets of sensors are sent at their own times, so at speed 1", param_hint="--speed")
    from parhelion.live.pacing import Stream
    from parhelion.scenario.scenario import Scenario

    whole = Scenario.load(scenario)
    drivers = [_driver(whole, text) for text in cmd_vel or []]
    start_engine()
    outlets: dict[str, Outlet] = {}
    try:
        for name, make in chosen.items():
            outlets[name] = make(whole, choices)
        controls = [connect(outlets["ROS 2"]) for connect in drivers]
        flow = Stream(whole, outlets, speed=speed, ahead_s=ahead, loop=loop, controllers=controls)
        if wait:
            _wait(outlets["ROS 2"], wait)
    except BaseException:
        for outlet in outlets.values():
            outlet.close()
        raise
    _tell_start(choices, list(outlets), controls)
    try:
        with _progress(flow) as progress:
            flow.run(progress)
    finally:
        _tell_end(flow, outlets, controls)


def _driver(scenario: Scenario, text: str) -> Callable[[Any], Any]:
    """What connects a vehicle to its topic once there is a node; a vehicle that is not there is told now."""
    from parhelion.live.ros import TWIST, TwistControl

    vehicle, _, topic = text.partition("=")
    scenario.body(vehicle)
    return lambda outlet: TwistControl(scenario, vehicle, outlet.node.subscribe(topic or "/cmd_vel", TWIST))


def _address(option: str, text: str | None) -> tuple[str, int]:
    """Host and port of 'HOST:PORT' or 'PORT'."""
    host, _, port = (text or "").rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{option}: give HOST:PORT or a port from 1 to 65535, got {text!r}")
    return host or "127.0.0.1", int(port)


def _wait(outlet: Any, seconds: float) -> None:
    if not outlet.wait_for_subscriber(seconds, stop_if_interrupted):
        warn(f"nobody subscribed within {seconds:g} s")


# ---- telling -------------------------------------------------------------------------------------------------------


def _tell_start(choices: Choices, names: list[str], controls: list[Any]) -> None:
    http = choices.ouster_http
    for name in names:
        where = {
            "ROS 2": f"domain {choices.domain} on {choices.interface}",
            "Velodyne UDP": choices.velodyne_udp,
            "Ouster UDP": f"{choices.ouster_udp}{f', metadata at port {http}' if http else ''}",
            "Foxglove": f"port {choices.foxglove}",
        }[name]
        screen.say(f"{name}: {where}")
    for control in controls:
        screen.say(f"{control.name} listens to {control.topic}")


@contextmanager
def _progress(flow: Stream) -> Iterator[Callable[[StreamSummary], None]]:
    """A line on stderr with time, rates and lag while the block runs, shown on terminals only."""
    from rich.progress import BarColumn, Progress, TextColumn

    out = screen.console(stderr=True)
    total = None if flow.loop else flow.scenario.duration_s
    columns = (TextColumn("streaming"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal, refresh_per_second=4) as bar:
        task = bar.add_task("", total=total)

        advised = False

        def progress(told: StreamSummary) -> None:
            nonlocal advised
            stop_if_interrupted()
            if not advised and getattr(flow.outlets.get("Foxglove"), "missed_web_app", False):
                advised = True
                warn("Foxglove's web app was refused; to let it in, add --foxglove-origin https://app.foxglove.dev")
            seconds = flow.clock.seconds
            rate = told.scans / seconds if seconds > 0.5 else 0.0
            lag = max((lag.last_s for lag in told.lags.values()), default=0.0)
            text = f"{told.simulated_s:.1f} s, {rate:.1f} scans/s, {1e3 * lag:.0f} ms behind"
            bar.update(task, completed=told.simulated_s, description=text)

        yield progress


def _tell_end(flow: Stream, outlets: dict[str, Outlet], controls: list[Any]) -> None:
    told = flow.summary
    rows = [
        ("streamed", f"{told.simulated_s:.1f} s in {told.seconds:.1f} s, {told.rounds} rounds"),
        ("scans", f"{told.scans} with {screen.count(told.points)} points"),
    ]
    for name, lag in told.lags.items():
        rows.append(
            (name, f"behind the clock by {1e3 * lag.mean_s:.1f} ms on average, {1e3 * lag.worst_s:.1f} at most")
        )
    for control in controls:
        refused = f", {control.refused} not followed" if control.refused else ""
        rows.append((control.topic, f"{control.messages} commands for {control.name}{refused}"))
    screen.facts(flow.scenario.settings.name or "stream", rows)
    node = getattr(outlets.get("ROS 2"), "node", None)
    if node is not None:
        _tell_topics(node.sent, max(told.seconds, 1e-9))


def _tell_topics(sent: dict[str, Any], seconds: float) -> None:
    screen.table(
        "",
        ("topic", "type", "messages", "Hz", "MB/s"),
        [
            (topic, one.type, one.messages, f"{one.messages / seconds:.1f}", f"{one.bytes / 1e6 / seconds:.2f}")
            for topic, one in sorted(sent.items())
        ],
        numbers=("messages", "Hz", "MB/s"),
    )
    refused = sum(one.refused for one in sent.values())
    if refused:
        warn(f"{refused} messages were given up, since a reliable subscriber did not read them in time")
