"""Command line: thin commands that parse, call and print."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of `parhelion`."""
    try:
        from parhelion.cli.app import app

        app(prog_name="parhelion")
    except BaseException as error:  # before or after a command runs; commands report Ctrl-C themselves
        if isinstance(error, SystemExit) or not _caused_by_interrupt(error):
            raise
        print("stopped", file=sys.stderr)
        sys.stderr.flush()
        # Modules that were interrupted while they were imported may fail in their exit handlers.
        os._exit(130)


def _caused_by_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C led to an error: packages replace it, for example by an ImportError."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
