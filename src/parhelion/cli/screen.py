"""Tables, progress bars and sentences on the terminal: the only module that prints.

Text may contain names from files. It is printed verbatim, never as markup, except that `printable` quotes control
characters, so that a file cannot send commands to the terminal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from parhelion.core.errors import ParhelionError
from parhelion.core.interrupts import INTERRUPTED, uninterrupted

if TYPE_CHECKING:
    from rich.console import Console

    from parhelion.rays.device import Engine


def stop_if_interrupted() -> None:
    """Raise KeyboardInterrupt if native code or a finaliser lost an earlier one."""
    if uninterrupted.pressed:
        raise KeyboardInterrupt


# ---- screen ---------------------------------------------------------------------------------------------------------


# Wide enough that no table is truncated in a file or a pipe.
_PIPE_WIDTH = 200


# C0 and C1 controls except tab and line feed, bidirectional overrides, line separators, and undecodable bytes.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text in which control characters are written as escapes: an ESC becomes the four characters \\x1b."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def _cell(value: Any) -> str:
    """Text of a table cell, on one line."""
    return printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def command_line() -> str:
    """Command line as given, for reports."""
    return shlex.join(["parhelion", *sys.argv[1:]])


def console(*, stderr: bool = False) -> Console:
    """Console with the width of the terminal, or a wide one without a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def examples(*lines: str) -> str:
    """Epilog of a help page: examples, one per line."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[str] = ()) -> None:
    """Print a table; columns named in `numbers` are right-aligned."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(_cell(title)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        grid.add_column(Text(_cell(name)), justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(_cell(cell)) for cell in row))
    console().print(grid)


def facts(title: str, rows: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    if title.startswith("\n"):  # an empty line before the title; other control characters are quoted
        out.print()
    if title.strip():
        out.print(Text(_cell(title.strip()), style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(_cell(name)), value if isinstance(value, Text) else Text(printable(str(value))))
    out.print(grid)


def print_line(text: str = "") -> None:
    """Print plain text."""
    typer.echo(printable(text))


def print_error(text: str) -> None:
    """Print one error line on stderr."""
    typer.echo(f"error: {printable(one_line(text))}", err=True)


@contextmanager
def progress(task: str, total: int | None) -> Iterator[Callable[[], None]]:
    """Progress bar on stderr while the block runs, on terminals only; call the yielded function after each item.

    `total` is None if the number of items is unknown.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        number = bar.add_task(_cell(task), total=total)

        def advance() -> None:
            bar.advance(number)
            stop_if_interrupted()

        yield advance


@contextmanager
def progress_to(task: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Progress bar for work that reports the number of finished items."""
    reported = 0
    with progress(task, total) as advance:

        def reach(done: int, _total: int) -> None:
            nonlocal reported
            for _ in range(reported, done):
                advance()
            reported = max(reported, done)

        yield reach


def print_schema(schema: dict[str, Any]) -> None:
    """Print a JSON schema."""
    print_line(json.dumps(schema, indent=1))


def count(number: int) -> str:
    """Integer with digit groups: 12 345 678."""
    return f"{number:,}".replace(",", " ")


def percent(share: float) -> str:
    """Fraction as a percentage; tiny values are not rounded to zero."""
    return "0 %" if share == 0 else f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


# ---- failures: one sentence and an exit code, never a bare traceback ------------------------------------------------


DEBUG_VARIABLE = "PARHELION_DEBUG"
RENAMED_OPTIONS = {"--turn": "--index"}
"""Deprecated options and their new names."""
FAILED = 1


class _WithExamples:
    """Help page whose epilog keeps its line breaks."""

    epilog: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines, self.epilog = self.epilog, None
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.epilog = lines
        formatter.write(f"{lines}\n")


class Group(_WithExamples, TyperGroup):
    """Group of all commands."""


class Command(_WithExamples, TyperCommand):
    """Command whose failures are reported in one line. Renamed options are accepted with a warning."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Replace deprecated options by their new names."""
        current = []
        for word in args:
            option, given, value = word.partition("=")
            if option in RENAMED_OPTIONS:
                warn(f"{option} is deprecated; use {RENAMED_OPTIONS[option]}")
                option = RENAMED_OPTIONS[option]
            current.append(f"{option}{given}{value}")
        return super().parse_args(ctx, current)

    def invoke(self, ctx: Any) -> Any:
        with one_line_warnings(), one_line_errors():
            stop_if_interrupted()
            return super().invoke(ctx)


def debugging() -> bool:
    """Return True if the user asked for tracebacks."""
    return os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Report errors as `error: ...` on stderr with exit code 1, and Ctrl-C as `stopped` with 130."""
    try:
        yield
    except typer.BadParameter as error:
        error.message = printable(error.message)
        raise
    except (typer.Exit, typer.Abort):
        raise
    except BrokenPipeError:
        raise  # the other end of the pipe was closed; typer exits quietly
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) or uninterrupted.pressed:
            typer.echo("stopped", err=True)
            raise typer.Exit(INTERRUPTED) from None
        if debugging():
            raise
        print_error(_with_example(sentence(error)))
        raise typer.Exit(FAILED) from None


def _with_example(text: str) -> str:
    """A message about a missing file, with the remedy if the file is an example that ships with the package."""
    name, missing, _ = text.partition(": no such file")
    if not missing:
        return text
    from parhelion.cli.starters import is_example

    own = name.replace("\\", "/").removeprefix("./").removeprefix("examples/")
    return (
        f"{text}; to copy the examples of the package: parhelion examples --copy examples" if is_example(own) else text
    )


def sentence(error: BaseException) -> str:
    """Error as one line: bad input, a failure of the system, or a bug."""
    if isinstance(error, ParhelionError):
        return one_line(str(error))
    if isinstance(error, OSError):
        where = f"{os.fspath(error.filename)}: " if isinstance(error.filename, (str, os.PathLike)) else ""
        return one_line(f"{where}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return "out of memory: use fewer scans, sub-rays or triangles at a time"
    advice = f"this is a bug; {DEBUG_VARIABLE}=1 shows where"
    return one_line(f"unexpected {type(error).__name__}: {error} ({advice})")


def one_line(text: str) -> str:
    """Text without line breaks."""
    return " ".join(text.split())


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print warnings that a user can act on as `warning: ...` on stderr; suppress those for developers."""
    with warnings.catch_warnings():
        if not debugging():
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("default", category)
            warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(str(message))


def warn(text: str) -> None:
    """Print one warning line."""
    typer.echo(f"warning: {printable(one_line(text))}", err=True)


# ---- engine ---------------------------------------------------------------------------------------------------------
# Start the ray engine so that a missing library is reported in one sentence, without the output of the loader.


def start_engine() -> Engine:
    """Return the running engine. Raise MissingDependencyError with the install command if LLVM is missing."""
    from parhelion.rays.device import engine

    with _native_messages_only_on_success():
        found = engine()
    stop_if_interrupted()
    return found


@contextmanager
def _native_messages_only_on_success() -> Iterator[None]:
    """Hold back stderr of native code in the block: print it on success, drop it on failure."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed: there is no output to hold back
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        held.seek(0)
        os.write(2, held.read())
