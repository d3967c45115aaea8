"""The command line: thin commands that parse, call and print."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of `parhelion`."""
    try:
        from parhelion.cli.app import app

        app(prog_name="parhelion")
    except KeyboardInterrupt:  # before or after a command runs; commands tell it themselves
        print("stopped", file=sys.stderr)
        sys.exit(130)
