"""`parhelion verify`: check the files of a run against their hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.screen import FAILED

EXAMPLES = (
    "parhelion verify out                       # all files of a run",
    "parhelion verify out/semantic-kitti        # one of its data sets",
    "parhelion run scenario.yaml -o out         # regenerates the files that differ",
)
_SHOWN = 50
"""Number of differing files that are listed."""


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a run, or a data set in it.")],
) -> None:
    """Check that every file of a run, or of a data set in it, is as it was written.

    Compares the files with the hashes in manifest.json; in the folder of an interrupted run, with
    those in its journal. Exits with 1 if a file is missing or differs, or if the run is incomplete.
    """
    from parhelion.outputs.verify import verify as check

    with screen.progress("checking", None) as advance:
        found = check(folder, advance)
    lines = [*(f"changed  {name}" for name in found.changed), *(f"missing  {name}" for name in found.missing)]
    for line in lines[:_SHOWN]:
        screen.print_line(line)
    if len(lines) > _SHOWN:
        screen.print_line(f"... and {len(lines) - _SHOWN} more")
    for problem in found.problems:
        screen.print_line(problem)
    total = found.intact + len(lines)
    screen.print_line(f"{found.intact} of {total} files are as they were written, by {found.manifest}")
    if found.good:
        return
    reasons = [] if found.complete else ["the run is incomplete"]
    reasons += [
        f"{len(files)} {word}" for word, files in (("changed", found.changed), ("missing", found.missing)) if files
    ]
    reasons += ["the manifest is damaged"] * bool(found.problems)
    screen.print_error(f"{folder}: {', '.join(reasons)}; run the same command again to regenerate what differs")
    raise typer.Exit(FAILED)
