"""`parhelion calibrate --live`: record a board in front of the running sensor, with the angles covered so far."""

from __future__ import annotations

import math
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from parhelion.cli import screen
from parhelion.cli.screen import warn
from parhelion.core.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from parhelion.calibrate.boards.live import BoardView
    from parhelion.live.dds import Node

_BAR = 24
_WIDTH, _LEAST_HEIGHT, _MOST_HEIGHT = 61, 7, 21
_FRAME_LINES = 5  # head, border and last line


@dataclass(frozen=True)
class LiveBoard:
    """Options of a live recording."""

    source: str
    """Topic, or udp://HOST:PORT."""
    boards: Path
    """Boards file to which the recording is added."""
    material: str | None
    width_m: float | None
    distance_m: float | None
    per_bin: int
    seconds: float
    domain: int
    seed: int
    anywhere: bool = False

    def run(self, node: Node | None = None) -> Path:
        """Record one board, and return the recording."""
        from parhelion.calibrate.boards.live import BoardCounter, add_board, check_boards
        from parhelion.calibrate.boards.shots import shots_of_cloud
        from parhelion.live.measurements import LiveClouds

        if self.boards.suffix.lower() not in (".yaml", ".yml"):
            raise ConfigError(f"--boards: {self.boards}: a boards file needs a name that ends in .yaml")
        check_boards(self.boards)
        asked = self._asked()
        counter = BoardCounter(self.per_bin, asked.width_m, asked.distance_m, self.seed)
        recording = _free(self.boards.parent, str(asked.material))
        view: BoardView | None = None
        with ExitStack() as stack:
            source = stack.enter_context(
                LiveClouds(self.source, recording, node=node, domain=self.domain, allow_remote=self.anywhere)
            )
            show = stack.enter_context(_screen())
            try:
                for cloud in source.measurements(self.seconds):
                    view = counter.add(shots_of_cloud(cloud, self.source))
                    if view.restarted:
                        source.restart()
                    if show is not None:
                        lines = show.console.size.height - _FRAME_LINES - max(len(view.covered), 1)
                        show.update(_picture(view, str(asked.material), lines), refresh=True)
                    if view.is_complete:
                        break
            except KeyboardInterrupt:
                screen.print_line("stopped")
            except FormatError as error:
                raise ConfigError(str(error)) from None
            if view is None or view.board is None:
                reason = "no measurement arrived" if view is None else view.problem
                raise ConfigError(f"--live: {self.source}: {reason}; nothing is recorded")
            file = source.keep()
        self._report(view)
        entry: dict[str, Any] = {"material": str(asked.material), "recording": file.name}
        entry["distance_m"] = round(asked.distance_m or view.board.distance_m, 3)
        if asked.width_m is not None:
            entry["width_m"] = asked.width_m
        add_board(self.boards, entry)
        screen.print_line(f"wrote {file}")
        screen.print_line(f"added {asked.material} to {self.boards}")
        return file

    def _asked(self) -> LiveBoard:
        """Options, with prompts for what is missing if a person is at the terminal."""
        import sys
        from dataclasses import replace

        material, width, distance = self.material, self.width_m, self.distance_m
        if sys.stdin.isatty():
            material = material or typer.prompt("Material of the board").strip()
            width = width or _length("Width of the board [m] (empty: detect its edges)")
            distance = distance or _length("Distance of the board [m] (empty: the nearest board)")
        if not material:
            raise typer.BadParameter("name the material of the board", param_hint="--material")
        return replace(self, material=material, width_m=width, distance_m=distance)

    def _report(self, view: BoardView) -> None:
        board = view.board
        assert board is not None
        screen.print_line(
            f"board at {board.distance_m:.3f} m and {board.azimuth_deg:.0f} deg, {board.width_m:.2f} m wide"
        )
        rows = [(name, screen.count(count), "yes" if count >= view.wanted else "no") for name, count in view.rows()]
        screen.table(
            "Shots by angle of incidence", ("angle", "shots", f"{view.wanted} reached"), rows, numbers=("shots",)
        )
        missing = [name for name, count in view.rows() if count < view.wanted]
        if missing:
            warn(f"{self.source}: fewer than {view.wanted} shots at {', '.join(missing)}")


def _length(text: str) -> float | None:
    """Length [m] that the user types, None if the line is empty."""
    while True:
        answer = typer.prompt(text, default="", show_default=False).strip()
        try:
            value = float(answer) if answer else None
        except ValueError:
            value = math.nan
        if value is None or (math.isfinite(value) and value > 0):
            return value
        screen.print_line("a length above 0 in metres, such as 0.6")


def _free(folder: Path, material: str) -> Path:
    """Path of a new recording, without its extension."""
    name = "".join(one if one.isalnum() or one in "-_" else "-" for one in material)
    taken = {file.stem for file in folder.iterdir()} if folder.is_dir() else set()
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    folder.mkdir(parents=True, exist_ok=True)
    return folder / found


def _screen() -> Any:
    """Live display on a terminal; nothing elsewhere."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    return Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext()


def _picture(view: BoardView, material: str, lines: int) -> RenderableType:
    """Top view of at most so many lines, and a bar per bin."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    board = view.board
    if board is None:
        head = f"{material}: no board: {view.problem}"
    else:
        head = f"{material}: board at {board.distance_m:.3f} m, {board.azimuth_deg:.0f} deg, {board.width_m:.2f} m wide"
    bars = []
    for name, count in view.rows():
        full = min(_BAR, int(_BAR * count / view.wanted))
        bars.append(f"{name:>10} {'█' * full}{'·' * (_BAR - full)} {min(count, 10**6)}/{view.wanted}")
    scene = Panel(
        Text("\n".join(view.top_view(_WIDTH, min(max(lines, _LEAST_HEIGHT), _MOST_HEIGHT)))),
        title="from above",
        width=_WIDTH + 4,
    )
    return Group(Text(head), scene, Text("\n".join(bars) or "no shots at a board yet"), Text("Ctrl-C stops"))
