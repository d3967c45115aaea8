"""Runs of scenarios: a yard with two walls, runs that stop early, and the files of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

YARD: dict[str, Any] = {
    "name": "yard",
    "objects": [
        {"shape": {"kind": "plane", "size_m": [60, 60]}, "material": "concrete", "label": "road"},
        {"shape": {"kind": "box", "size_m": [1, 20, 4]}, "material": "brick", "label": "building",
         "pose": {"xyz": [12, 0, 2]}},
        {"shape": {"kind": "box", "size_m": [20, 1, 4]}, "material": "brick", "label": "building",
         "pose": {"xyz": [0, 10, 2]}},
    ],
}  # fmt: skip
ONE_WALL: dict[str, Any] = {**YARD, "objects": YARD["objects"][:2]}


class Stop(Exception):
    """Ends a run from its progress callback."""


def stop_after(frames: int) -> Callable[[int, int], None]:
    """Progress callback that raises Stop after a number of frames."""

    def stop(there: int, total: int) -> None:
        if there == frames:
            raise Stop

    return stop


def files_of(place: Path) -> dict[str, bytes]:
    """Content of all files below a folder, by their path."""
    return {
        file.relative_to(place).as_posix(): file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file()
    }
