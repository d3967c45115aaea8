"""What a user sees when something goes wrong: one sentence and an exit code, never a bare traceback."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from parhelion.cli.interrupt import remembered_interrupts, was_interrupted
from parhelion.core.errors import ParhelionError

DEBUG_VARIABLE = "PARHELION_DEBUG"
FAILED, INTERRUPTED = 1, 130


class _WithExamples:
    """Help pages whose epilog keeps its lines, whichever way typer would wrap them."""

    epilog: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines, self.epilog = self.epilog, None
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.epilog = lines
        formatter.write(f"{lines}\n")


class Group(_WithExamples, TyperGroup):
    """The table of commands."""


class Command(_WithExamples, TyperCommand):
    """A command whose failures are told in one line."""

    def invoke(self, ctx: Any) -> Any:
        with remembered_interrupts(), one_line_warnings(), one_line_errors():
            return super().invoke(ctx)


def debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Errors become `error: ...` on stderr and exit code 1; Ctrl-C becomes `stopped` and 130."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        raise  # the reader of a pipe has seen enough; typer ends quietly
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) or was_interrupted():
            typer.echo("stopped", err=True)
            raise typer.Exit(INTERRUPTED) from None
        if debugging():
            raise
        typer.echo(f"error: {sentence(error)}", err=True)
        raise typer.Exit(FAILED) from None


def sentence(error: BaseException) -> str:
    """One line for an error of the user's, of the machine's, or of ours."""
    if isinstance(error, ParhelionError):
        return one_line(str(error))
    if isinstance(error, OSError):
        where = f"{os.fspath(error.filename)}: " if isinstance(error.filename, (str, os.PathLike)) else ""
        return one_line(f"{where}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return "out of memory: take fewer scans, sub-rays or triangles at a time"
    advice = f"this is a bug; {DEBUG_VARIABLE}=1 shows where"
    return one_line(f"unexpected {type(error).__name__}: {error} ({advice})")


def one_line(text: str) -> str:
    """Text without line breaks."""
    return " ".join(text.split())


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Warnings that a user can act on become `warning: ...` on stderr; notes to developers are left out."""
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
    typer.echo(f"warning: {one_line(text)}", err=True)
