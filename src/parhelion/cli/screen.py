"""Tables, progress bars and sentences on the terminal. File names are printed as they are, never as markup."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from parhelion.cli.interrupt import stop_if_interrupted

if TYPE_CHECKING:
    from rich.console import Console


# Wide enough that no table is cut where the output goes to a file or a pipe.
_PIPE_WIDTH = 200


def command_line() -> str:
    """The command as it was given, for reports."""
    return shlex.join(["parhelion", *sys.argv[1:]])


def console(*, stderr: bool = False) -> Console:
    """Where to print: the terminal's own width, or a wide one where there is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def examples(*lines: str) -> str:
    """The epilog of a help page: worked examples, one a line."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[str] = ()) -> None:
    """Print a table; columns named in `numbers` are flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        grid.add_column(Text(name), justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))
    console().print(grid)


def facts(title: str, rows: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one a line."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    if title:
        out.print(Text(title, style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), value if isinstance(value, Text) else Text(str(value)))
    out.print(grid)


def say(text: str = "") -> None:
    """Print one plain line."""
    typer.echo(text)


@contextmanager
def progress(task: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A bar on stderr while the block runs, shown on terminals only; call what it gives after each piece.

    `total` is None where the number of pieces is not known beforehand.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        number = bar.add_task(task, total=total)

        def advance() -> None:
            bar.advance(number)
            stop_if_interrupted()

        yield advance


def count(number: int) -> str:
    """A whole number with thin groups: 12 345 678."""
    return f"{number:,}".replace(",", " ")


def percent(share: float) -> str:
    """A share of 1 as percent, tiny ones not rounded to nothing."""
    return "0 %" if share == 0 else f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"
