"""Points per class that fog takes from the scans of a SemanticKITTI sequence, and points that fog adds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

CLASSES = {40: "road", 50: "building", 10: "car", 70: "vegetation", 30: "person"}


def count(folder: Path, number: int) -> int:
    """Points of a class in all label files of a folder; the class is in the lower 16 bits."""
    return sum(int((np.fromfile(file, np.uint32) & 0xFFFF == number).sum()) for file in sorted(folder.glob("*.label")))


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: python 02-compare.py LABELS_IN_CLEAR_AIR LABELS_IN_FOG")
    clear, fog = Path(sys.argv[1]), Path(sys.argv[2])
    print(f"{'class':12} {'clear':>8} {'fog':>8}")
    for number, name in CLASSES.items():
        before, after = count(clear, number), count(fog, number)
        print(f"{name:12} {before:8} {after:8}")
        if before > 1000 and not after < before:
            raise SystemExit(f"fog took no points of {name}")


if __name__ == "__main__":
    main()
