"""`parhelion stream`: a scenario in real time, to ROS 2 and other subscribers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.screen import start_engine, stop_if_interrupted, warn
from parhelion.cli.weather_options import WeatherCommand, WeatherOptions, weather_options
from parhelion.core.errors import ConfigError
from parhelion.makers import LOOPBACK, codecs

if TYPE_CHECKING:
    from parhelion.live.pacing import Outlet, PacedRun, StreamSummary
    from parhelion.makers.codec import Codec
    from parhelion.scenario.scenario import Scenario

EXAMPLES = (
    "parhelion stream scenario.yaml --ros2                            # topics as the real drivers publish them",
    "parhelion stream scenario.yaml --ros2 --reliable --loop",
    "parhelion stream scenario.yaml --ros2 --cmd-vel husky            # /cmd_vel drives the vehicle husky",
    "parhelion stream scenario.yaml --ros2 --cmd-vel husky=/husky/cmd_vel --domain 7",
    "parhelion stream scenario.yaml --ros2 --thrusters wamv=/wamv/thrusters --ackermann car   # thrust and steering",
    "parhelion stream scenario.yaml --ros2 --rain 25 --weather-topic  # /weather/rain_rate_mm_h changes the rain",
    "parhelion stream scenario.yaml --ros2 --weather-topic --events events.jsonl   # parhelion run --events repeats it",
    "parhelion stream scenario.yaml --view --events events.jsonl     # sliders for weather and daylight in a browser",
    "parhelion stream scenario.yaml --velodyne-udp                    # packets to 127.0.0.1:2368",
    "parhelion stream scenario.yaml --ouster-udp 127.0.0.1:7502 --ouster-http 8088 --foxglove",
    "parhelion stream scenario.yaml --zenoh tcp/localhost:7447 --ros-distro jazzy   # for rmw_zenoh",
    "parhelion stream scenario.yaml --rclpy --interface any           # through the installed ROS 2",
)
OPEN_LOOP_AHEAD_S, CLOSED_LOOP_AHEAD_S = 0.6, 0.2
HTTP_PORT = 8088
_PORTS = {"--foxglove": 8765, "--view": 8080}
"""Default ports of options whose value may be omitted."""
_TARGET = re.compile(r"(?:[A-Za-z0-9.-]*:)?\d{1,5}")


class StreamCommand(WeatherCommand):
    """Command with `--MAKER-udp` and `--MAKER-http` for every maker, and options with optional values."""

    @staticmethod
    def maker_options() -> dict[str, tuple[str, str]]:
        """Options that expand to `--udp` and `--http` of one maker."""
        return {f"--{maker}-{kind}": (kind, maker) for maker in codecs() for kind in ("udp", "http")}

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Insert default values, and rewrite makers' options as `--udp MAKER=...` and `--http MAKER=...`."""
        makers = self.maker_options()
        full: list[str] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            option, given, value = word.partition("=")
            if option not in makers and word not in _PORTS:
                full.append(word)
                continue
            if not given and rest and _TARGET.fullmatch(rest[0]):
                value = rest.pop(0)
            kind, maker = makers.get(option, ("", ""))
            full.append(f"--{kind}={maker}={value}" if maker else f"{option}={value or _PORTS[option]}")
        return super().parse_args(ctx, full)


@dataclass
class Choices:
    """User options that concern the outlets."""

    ros: bool
    rclpy: bool
    zenoh: str | None
    """Address of the router."""
    domain: int
    interface: str
    reliable: bool
    distro: str | None
    udp: dict[str, str]
    """HOST:PORT by maker."""
    http: dict[str, str]
    """Port by maker."""
    foxglove: str | None
    foxglove_origins: list[str]
    view: str | None
    """Port of the viewer."""
    anywhere: bool
    ahead_s: float
    air: Any = None
    """Control of weather and daylight by the viewer; the topics share it."""


def _ros(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.dds import DdsNode, Node
    from parhelion.live.ros import RclpyNode, RosOutlet, bag_entry

    distro = choices.distro or bag_entry(scenario).ros_distro
    node: Node
    if choices.zenoh is not None:
        from parhelion.live.zenoh import ZenohNode

        node = found = ZenohNode(
            choices.domain, choices.zenoh, reliable=choices.reliable, distro=distro, allow_remote=choices.anywhere
        )
        if not found.connected:
            warn(f"no zenoh router at {choices.zenoh}; start one, for example ros2 run rmw_zenoh_cpp rmw_zenohd")
    else:
        kind = RclpyNode if choices.rclpy else DdsNode
        node = kind(choices.domain, choices.interface, reliable=choices.reliable, distro=distro)
    try:
        return RosOutlet.of(scenario, node, batch_s=choices.ahead_s / 2)
    except BaseException:
        node.close()
        raise


def _packets(maker: str) -> Callable[[Scenario, Choices], Outlet]:
    def make(scenario: Scenario, choices: Choices) -> Outlet:
        from parhelion.live.udp import PacketUdp

        host, port = _address(f"--{maker}-udp", choices.udp[maker])
        http = choices.http.get(maker)
        http_port = None if http is None else _address(f"--{maker}-http", http)[1]
        return PacketUdp(scenario, maker, host, port, http_port=http_port, allow_remote=choices.anywhere)

    return make


def _foxglove(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.foxglove import FoxgloveServer

    host, port = _address("--foxglove", choices.foxglove)
    return FoxgloveServer(scenario, host, port, allow_remote=choices.anywhere, origins=choices.foxglove_origins)


def _view(scenario: Scenario, choices: Choices) -> Outlet:
    from parhelion.live.viewer.stream import ViewOutlet

    host, port = _address("--view", choices.view, lowest=0)
    if not choices.anywhere and host not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(f"--view: {host} is not this machine; add --anywhere")
    return ViewOutlet(scenario, choices.air, host=host, port=port)


def _outlets(choices: Choices) -> dict[str, tuple[Callable[[Scenario, Choices], Outlet], str]]:
    """Selected outlets by name, with the function that opens each one and its destination."""
    found: dict[str, tuple[Callable[[Scenario, Choices], Outlet], str]] = {}
    if choices.zenoh is not None:
        found["ROS 2"] = _ros, f"domain {choices.domain} by zenoh, {choices.zenoh}"
    elif choices.ros or choices.rclpy:
        found["ROS 2"] = _ros, f"domain {choices.domain} on {choices.interface}"
    for maker, where in choices.udp.items():
        http = f", metadata at port {choices.http[maker]}" if maker in choices.http else ""
        found[f"{codecs()[maker].title} UDP"] = _packets(maker), f"{where}{http}"
    if choices.foxglove:
        found["Foxglove"] = _foxglove, f"port {choices.foxglove}"
    if choices.view:
        found["viewer"] = _view, f"port {choices.view}"
    return found


@weather_options
def stream(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="Scenario file (.yaml).")],
    ros2: Annotated[
        bool, typer.Option("--ros2", help="Publish ROS 2 topics over DDS; ROS need not be installed.")
    ] = False,
    rclpy: Annotated[bool, typer.Option("--rclpy", help="Publish them through the installed ROS 2 (rclpy).")] = False,
    zenoh: Annotated[
        str | None,
        typer.Option(
            "--zenoh", metavar="ADDRESS", help="Publish them over zenoh for rmw_zenoh, such as tcp/localhost:7447."
        ),
    ] = None,
    domain: Annotated[
        int, typer.Option("--domain", metavar="ID", envvar="ROS_DOMAIN_ID", help="ROS 2 domain, 0 to 232.")
    ] = 0,
    interface: Annotated[
        str, typer.Option("--interface", metavar="NAME", help="Network interface for ROS 2; 'any' lets DDS choose.")
    ] = "lo",
    reliable: Annotated[
        bool, typer.Option("--reliable", help="Publish sensor data as reliable instead of best effort.")
    ] = False,
    ros_distro: Annotated[
        str | None,
        typer.Option(
            "--ros-distro",
            metavar="NAME",
            envvar="ROS_DISTRO",
            help="Distribution of the subscribers, such as jazzy. Default: that of the scenario's bag, or humble.",
        ),
    ] = None,
    cmd_vel: Annotated[
        list[str] | None,
        typer.Option("--cmd-vel", metavar="VEHICLE[=TOPIC]", help="Drive a vehicle by Twist messages (/cmd_vel)."),
    ] = None,
    thrusters: Annotated[
        list[str] | None,
        typer.Option(
            "--thrusters",
            metavar="VESSEL[=PREFIX]",
            help="Drive a vessel by the thrust and angle of each side (/thrusters/left/thrust, left/pos ...).",
        ),
    ] = None,
    ackermann: Annotated[
        list[str] | None,
        typer.Option(
            "--ackermann", metavar="CAR[=TOPIC]", help="Drive a car by speed and steering angle (/ackermann_cmd)."
        ),
    ] = None,
    weather_topic: Annotated[
        bool,
        typer.Option(
            "--weather-topic", help="Change weather and daylight by the topics /weather/... and /daylight/..."
        ),
    ] = False,
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Log all commands and changes, for parhelion run --events."),
    ] = None,
    udp: Annotated[
        list[str] | None,
        typer.Option(
            "--udp",
            metavar="MAKER[=HOST:PORT]",
            help="Send the packets of a maker's lidars; also as --MAKER-udp, such as --velodyne-udp [HOST:PORT].",
        ),
    ] = None,
    http: Annotated[
        list[str] | None,
        typer.Option(
            "--http",
            metavar="MAKER[=PORT]",
            help="Serve the HTTP interface of these lidars; also as --MAKER-http, such as --ouster-http [PORT].",
        ),
    ] = None,
    foxglove: Annotated[
        str | None, typer.Option("--foxglove", metavar="[PORT]", help="Serve Foxglove on this machine.")
    ] = None,
    foxglove_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--foxglove-origin", metavar="SITE", help="Allow web pages of this site, such as https://app.foxglove.dev."
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            "--view", metavar="[PORT]", help="Show the stream in a browser, with sliders for weather and daylight."
        ),
    ] = None,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Allow UDP, Foxglove, zenoh and the viewer beyond this machine.")
    ] = False,
    speed: Annotated[
        float, typer.Option("--speed", min=0.001, max=1000, help="Simulated seconds per second of wall time.")
    ] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="Restart at the end, until Ctrl-C.")] = False,
    ahead: Annotated[
        float | None,
        typer.Option(
            "--ahead",
            metavar="S",
            min=0,
            max=60,
            help="Seconds to measure ahead. Default: 0.6; with commands, --weather-topic and --view 0.2.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="S", min=0, max=3600, help="Wait up to S seconds for a ROS 2 subscriber before the start."
        ),
    ] = 0.0,
    *,
    weather: WeatherOptions,
) -> None:
    """Stream a scenario in real time: to ROS 2, as packets of the real sensors, to Foxglove.

    All traffic stays on this machine unless an interface or --anywhere is given. Press Ctrl-C to stop.
    """
    if ahead is None:
        closed = cmd_vel or thrusters or ackermann or weather_topic or view
        ahead = CLOSED_LOOP_AHEAD_S if closed else OPEN_LOOP_AHEAD_S
    packets = _by_maker("--udp", udp, lambda codec: f"{LOOPBACK}:{next(iter(codec.ports.values()))}")
    documents = _by_maker("--http", http, lambda codec: str(HTTP_PORT))
    choices = Choices(
        ros2,
        rclpy,
        zenoh,
        domain,
        interface,
        reliable,
        ros_distro,
        packets,
        documents,
        foxglove,
        foxglove_origin or [],
        view,
        anywhere,
        ahead,
    )
    if zenoh is not None and (ros2 or rclpy):
        raise typer.BadParameter("give one of --ros2, --rclpy and --zenoh", param_hint="--zenoh")
    chosen = _outlets(choices)
    if not chosen:
        raise typer.BadParameter("select an output, for example --ros2", param_hint="SCENARIO")
    needing = (("--cmd-vel", cmd_vel), ("--thrusters", thrusters), ("--ackermann", ackermann))
    for option, given in (*needing, ("--weather-topic", weather_topic), ("--wait", wait)):
        if given and "ROS 2" not in chosen:
            raise typer.BadParameter("needs --ros2, --rclpy or --zenoh", param_hint=option)
    if events is not None and loop:
        raise typer.BadParameter("cannot be combined with --loop", param_hint="--events")
    if events is not None and events.exists():
        raise typer.BadParameter(f"{events} exists; choose another file", param_hint="--events")
    for maker in documents:
        if maker not in packets:
            raise typer.BadParameter(f"needs --{maker}-udp", param_hint=f"--{maker}-http")
    if foxglove_origin and not foxglove:
        raise typer.BadParameter("needs --foxglove", param_hint="--foxglove-origin")
    if speed != 1.0 and packets:
        raise typer.BadParameter(
            "sensor packets are sent at their own times, which requires speed 1", param_hint="--speed"
        )
    from parhelion.live.dds import DdsNode
    from parhelion.live.pacing import PacedRun
    from parhelion.live.ros import AirControl
    from parhelion.scenario.plausible import notes_on
    from parhelion.scenario.scenario import Scenario

    whole = Scenario.load(scenario)
    for note in notes_on(whole):
        warn(f"{scenario}: {note}")
    if weather:
        whole.world.weather = weather.weather(whole.world.weather)
    drivers = [_driver(whole, text) for text in cmd_vel or []]
    drivers += [_actuators(whole, text, car=False) for text in thrusters or []]
    drivers += [_actuators(whole, text, car=True) for text in ackermann or []]
    start_engine()
    outlets: dict[str, Outlet] = {}
    parameters = None
    try:
        for name, (make, _) in chosen.items():
            if choices.air is None and name == "viewer":  # after ROS 2, whose topics share the control
                choices.air = AirControl(whole, outlets["ROS 2"].node if weather_topic else None)  # type: ignore[attr-defined]
            outlets[name] = make(whole, choices)
        if weather_topic and choices.air is None:
            choices.air = AirControl(whole, outlets["ROS 2"].node)  # type: ignore[attr-defined]
        controls = [connect(outlets["ROS 2"]) for connect in drivers]
        if choices.air is not None:
            controls.append(choices.air)
        flow = PacedRun(whole, outlets, speed=speed, ahead_s=ahead, loop=loop, controllers=controls, events=events)
        for control in controls:
            node = getattr(outlets.get("ROS 2"), "node", None)
            if isinstance(control, AirControl) and weather_topic and isinstance(node, DdsNode):
                from parhelion.live.simulation import AirParameters

                parameters = AirParameters(control, node)
        if wait:
            _wait(outlets["ROS 2"], wait)
    except BaseException:
        if parameters is not None:
            parameters.close()
        for outlet in outlets.values():
            outlet.close()
        raise
    _print_start(chosen, outlets, controls)
    try:
        with _progress(flow) as progress:
            if parameters is not None:
                flow.ending.append(parameters.close)
            flow.run(progress)
    finally:
        _print_end(flow, outlets, controls)


def _driver(scenario: Scenario, text: str) -> Callable[[Any], Any]:
    """Return the function that connects a vehicle to its topic once a node exists; unknown vehicles raise now."""
    from parhelion.live.ros import TWIST, TwistControl

    vehicle, _, topic = text.partition("=")
    scenario.body(vehicle)
    return lambda outlet: TwistControl(scenario, vehicle, outlet.node.subscribe(topic or "/cmd_vel", TWIST))


def _actuators(scenario: Scenario, text: str, *, car: bool) -> Callable[[Any], Any]:
    """Return the function that connects a vehicle to the topics of its actuators; unknown vehicles raise now."""
    from parhelion.live.commands import SteeringControl, ThrusterControl

    vehicle, _, topic = text.partition("=")
    scenario.body(vehicle)
    kind = SteeringControl if car else ThrusterControl
    return lambda outlet: kind(scenario, vehicle, outlet.node, topic)


def _by_maker(option: str, texts: list[str] | None, default: Callable[[Codec], str]) -> dict[str, str]:
    """Targets by maker, from texts such as 'velodyne=127.0.0.1:2368' or 'velodyne'."""
    found: dict[str, str] = {}
    for text in texts or ():
        maker, _, target = text.partition("=")
        if maker not in codecs():
            raise typer.BadParameter(
                f"{maker!r} is not a maker with packets ({', '.join(codecs())})", param_hint=option
            )
        found[maker] = target or default(codecs()[maker])
    return found


def _address(option: str, text: str | None, lowest: int = 1) -> tuple[str, int]:
    """Parse 'HOST:PORT' or 'PORT'."""
    host, _, port = (text or "").rpartition(":")
    if not port.isdecimal() or not lowest <= int(port) < 65536:
        raise ConfigError(f"{option}: give HOST:PORT or a port from {lowest} to 65535, got {text!r}")
    return host or "127.0.0.1", int(port)


def _wait(outlet: Any, seconds: float) -> None:
    if not outlet.wait_for_subscriber(seconds, stop_if_interrupted):
        warn(f"no subscriber within {seconds:g} s")


# ---- messages ------------------------------------------------------------------------------------------------------


def _print_start(chosen: dict[str, tuple[Any, str]], outlets: dict[str, Outlet], controls: list[Any]) -> None:
    for name, (_, where) in chosen.items():
        screen.print_line(f"{name}: {getattr(outlets[name], 'url', where) if name == 'viewer' else where}")
    for control in controls:
        screen.print_line(f"{control.name} listens to {control.topic}")


@contextmanager
def _progress(flow: PacedRun) -> Iterator[Callable[[StreamSummary], None]]:
    """Show a line with time, rates and lag on stderr while the block runs, on terminals only."""
    from rich.progress import BarColumn, Progress, TextColumn

    out = screen.console(stderr=True)
    total = None if flow.loop else flow.scenario.duration_s
    columns = (TextColumn("streaming"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal, refresh_per_second=4) as bar:
        task = bar.add_task("", total=total)

        advised = False

        def progress(status: StreamSummary) -> None:
            nonlocal advised
            stop_if_interrupted()
            if not advised and getattr(flow.outlets.get("Foxglove"), "missed_web_app", False):
                advised = True
                warn("the Foxglove web app was refused; to allow it, add --foxglove-origin https://app.foxglove.dev")
            seconds = flow.clock.seconds
            rate = status.scans / seconds if seconds > 0.5 else 0.0
            lag = max((lag.last_s for lag in status.lags.values()), default=0.0)
            text = f"{status.simulated_s:.1f} s, {rate:.1f} scans/s, {1e3 * lag:.0f} ms behind"
            bar.update(task, completed=status.simulated_s, description=text)

        yield progress


def _print_end(flow: PacedRun, outlets: dict[str, Outlet], controls: list[Any]) -> None:
    status = flow.summary
    rows = [
        ("streamed", f"{status.simulated_s:.1f} s in {status.seconds:.1f} s, {status.rounds} rounds"),
        ("scans", f"{status.scans} with {screen.count(status.points)} points"),
    ]
    for name, lag in status.lags.items():
        rows.append(
            (name, f"behind the clock by {1e3 * lag.mean_s:.1f} ms on average, {1e3 * lag.worst_s:.1f} at most")
        )
    for control in controls:
        refused = f", {control.refused} ignored" if control.refused else ""
        rows.append((control.topic, f"{control.messages} commands for {control.name}{refused}"))
    screen.facts(flow.scenario.settings.name or "stream", rows)
    node = getattr(outlets.get("ROS 2"), "node", None)
    if node is not None:
        _print_topics(node.sent, max(status.seconds, 1e-9))


def _print_topics(sent: dict[str, Any], seconds: float) -> None:
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
        warn(f"{refused} messages were dropped because a reliable subscriber did not read them in time")
