"""Command line: thin commands that parse, call and print."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from parhelion.core.interrupts import INTERRUPTED, uninterrupted


def main() -> None:
    """Entry point of `parhelion`. It handles Ctrl-C before the modules of the commands are imported."""
    try:
        uninterrupted.own_process()
        try:
            from parhelion.cli.app import app

            app(prog_name="parhelion")
        finally:
            uninterrupted.end_process()
    except BaseException as error:
        if _is_interrupted(error):
            _leave(error)
        raise


def _is_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C led to an error: packages replace it, for example by an ImportError or exit code 1."""
    if isinstance(error, SystemExit):
        return error.code == INTERRUPTED or (uninterrupted.pressed and error.code not in (0, None))
    if uninterrupted.pressed:
        return True
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _leave(error: BaseException) -> None:
    """End the process at once: modules that were interrupted while they were imported may fail in their exit handlers.

    Commands have closed their files and servers, and have reported Ctrl-C by exit code 130.
    """
    with suppress(OSError, ValueError):  # a closed pipe
        if not isinstance(error, SystemExit):
            print("stopped", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(INTERRUPTED)
