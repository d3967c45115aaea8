"""Command line: thin commands that parse, call and print."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `parhelion`."""
    try:
        from parhelion.cli.app import app

        app(prog_name="parhelion")
    except KeyboardInterrupt:  # before or after a command runs; commands report it themselves
        print("stopped", file=sys.stderr)
        sys.exit(130)
