"""`parhelion serve`: a scenario that other programs control."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.screen import start_engine, warn
from parhelion.core.interrupts import uninterrupted

if TYPE_CHECKING:
    from parhelion.live.simulation import SimulationServices
    from parhelion.scenario.control import Control

EXAMPLES = (
    "parhelion serve scenario.yaml                          # ws://127.0.0.1:8917; ph.connect() in Python",
    "parhelion serve scenario.yaml --paused -o out          # clients step it; files as from parhelion run",
    "parhelion serve scenario.yaml --ros2                   # services of simulation_interfaces, topics of the sensors",
    "parhelion run scenario.yaml -o again --events out/events.jsonl      # repeats the run byte for byte",
    "parhelion serve scenario.yaml --speed 0 --events events.jsonl       # as fast as possible, with a log",
    "PARHELION_TOKEN=... parhelion serve scenario.yaml --host 0.0.0.0    # for other machines",
)
PORT = 8917


def serve(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="Scenario file (.yaml).")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 selects a free one.")] = PORT,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; other machines need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TEXT", envvar="PARHELION_TOKEN", help="Secret of clients, 16 characters or more."
        ),
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Wait for a client that plays or steps.")] = False,
    speed: Annotated[
        float, typer.Option("--speed", min=0, max=1000, help="Simulated seconds per second; 0 is without a limit.")
    ] = 1.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for all files of the run, with the event log.")
    ] = None,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="FILE", help="Log all edits to a file; with -o by default.")
    ] = None,
    ros2: Annotated[
        bool, typer.Option("--ros2", help="Offer the ROS 2 services /parhelion/... over DDS, and publish all topics.")
    ] = False,
    domain: Annotated[
        int, typer.Option("--domain", metavar="ID", envvar="ROS_DOMAIN_ID", help="ROS 2 domain, 0 to 232.")
    ] = 0,
    interface: Annotated[
        str, typer.Option("--interface", metavar="NAME", help="Network interface for ROS 2; 'any' lets DDS choose.")
    ] = "lo",
    ros_distro: Annotated[
        str | None,
        typer.Option(
            "--ros-distro",
            metavar="NAME",
            envvar="ROS_DISTRO",
            help="Distribution of the subscribers, such as jazzy. Default: that of the scenario's bag, or humble.",
        ),
    ] = None,
    interfaces: Annotated[
        int,
        typer.Option(
            "--simulation-interfaces",
            metavar="1|2",
            min=1,
            max=2,
            help="Version of simulation_interfaces; 1 to Kilted.",
        ),
    ] = 1,
) -> None:
    """Serve a scenario to programs that control it: play, pause, step, spawn, move, weather, sensors, queries.

    Clients connect by WebSocket, with `ph.connect` in Python or examples/cpp in C++. Edits apply between two steps and
    are logged, so that `parhelion run --events` repeats the run. Press Ctrl-C to stop.
    """
    from parhelion.live.control_server import ControlServer
    from parhelion.scenario.control import Control
    from parhelion.scenario.events import EventLog, log_in
    from parhelion.scenario.plausible import notes_on
    from parhelion.scenario.scenario import Scenario

    if events is not None and events.exists():
        raise typer.BadParameter(f"{events} exists; choose another file", param_hint="--events")
    whole = Scenario.load(scenario)
    for note in notes_on(whole):
        warn(f"{scenario}: {note}")
    start_engine()
    control = Control(whole, playing=not paused, speed=speed or math.inf, check=lambda: uninterrupted.pressed)
    # Ctrl-C ends the run like a client that quits, so that files and log are complete.
    with uninterrupted, ExitStack() as stack:
        server = stack.enter_context(ControlServer(control, host, port, token=token))
        services = None
        if ros2:
            services = stack.enter_context(_services(control, domain, interface, ros_distro, interfaces))
        if events is not None:
            control.log = EventLog(events, whole, playing=not paused)
        elif output is not None:
            control.log = log_in(output, whole, playing=not paused)
        screen.print_line(f"{whole.settings.name or scenario.stem}: {server.url}, {'paused' if paused else 'playing'}")
        if services is not None:
            screen.print_line(
                f"ROS 2: services /parhelion/..., topics /weather/... and /daylight/..., domain {domain} on {interface}"
            )
        control.run(output)
    if services is not None and services.server.counts.foreign:
        warn("a ROS 2 client of another RMW called; only RMW_IMPLEMENTATION=rmw_cyclonedds_cpp can be answered")
    _print_end(control, output)


@contextmanager
def _services(
    control: Control, domain: int, interface: str, distro: str | None, version: int
) -> Iterator[SimulationServices]:
    """Services and topics of a served scenario on a DDS node."""
    from parhelion.live.dds import DdsNode
    from parhelion.live.ros import RosOutlet, bag_entry
    from parhelion.live.simulation import AirTopics, SimulationServices

    node = DdsNode(domain, interface, distro=distro or bag_entry(control.scenario).ros_distro)
    with ExitStack() as opened:
        opened.callback(node.close)
        outlet = RosOutlet.of(control.scenario, node, batch_s=0.0)
        air = AirTopics(control, node)
        opened.callback(air.close)

        def publish(step: Any) -> None:
            for _, message in outlet.prepare(step):
                outlet.take(message)
                if message.topic == air.clock.topic:
                    air.clock = message

        control.watchers.append(publish)
        services = SimulationServices(control, node, version=version)
        opened.callback(services.server.close)
        yield services


def _print_end(control: Control, output: Path | None) -> None:
    log = control.log
    rows = [("time", f"{control.time_s:g} s, {control.episode} resets")]
    if log is not None:
        rows.append(("events", f"{log.count} in {log.path}"))
    if output is not None:
        rows.append(("files", f"{output}/"))
    screen.facts(control.scenario.settings.name or "served", rows)
