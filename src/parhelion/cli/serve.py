"""`parhelion serve`: a scenario that other programs control."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.screen import start_engine
from parhelion.core.interrupts import uninterrupted

if TYPE_CHECKING:
    from parhelion.scenario.control import Control

EXAMPLES = (
    "parhelion serve scenario.yaml                          # ws://127.0.0.1:8917; ph.connect() in Python",
    "parhelion serve scenario.yaml --paused -o out          # clients step it; files as from parhelion run",
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
) -> None:
    """Serve a scenario to programs that control it: play, pause, step, spawn, move, weather, sensors, queries.

    Clients connect by WebSocket, with `ph.connect` in Python or examples/cpp in C++. Edits apply between two steps and
    are logged, so that `parhelion run --events` repeats the run. Press Ctrl-C to stop.
    """
    from parhelion.live.control_server import ControlServer
    from parhelion.scenario.control import Control
    from parhelion.scenario.events import EventLog, log_in
    from parhelion.scenario.scenario import Scenario

    if events is not None and events.exists():
        raise typer.BadParameter(f"{events} exists; choose another file", param_hint="--events")
    whole = Scenario.load(scenario)
    start_engine()
    control = Control(whole, playing=not paused, speed=speed or math.inf, check=lambda: uninterrupted.pressed)
    # Ctrl-C ends the run like a client that quits, so that files and log are complete.
    with uninterrupted, ControlServer(control, host, port, token=token) as server:
        if events is not None:
            control.log = EventLog(events, whole, playing=not paused)
        elif output is not None:
            control.log = log_in(output, whole, playing=not paused)
        screen.print_line(f"{whole.settings.name or scenario.stem}: {server.url}, {'paused' if paused else 'playing'}")
        control.run(output)
    _print_end(control, output)


def _print_end(control: Control, output: Path | None) -> None:
    log = control.log
    rows = [("time", f"{control.time_s:g} s, {control.episode} resets")]
    if log is not None:
        rows.append(("events", f"{log.count} in {log.path}"))
    if output is not None:
        rows.append(("files", f"{output}/"))
    screen.facts(control.scenario.settings.name or "served", rows)
