"""TUM trajectory files: one pose a line, `timestamp tx ty tz qx qy qz qw` in seconds and metres, `#` for comments.

    poses = tum.read(Path("groundtruth.txt"))
    tum.write(poses, Path("copy.txt"))        # the same numbers again, bit for bit

Source: https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats
"""

from __future__ import annotations

from pathlib import Path

from parhelion.core.reading import reader
from parhelion.io.atomic import atomic_write
from parhelion.io.text_table import format_rows
from parhelion.io.timed_poses import TimedPoses, checked, read_rows, refuse_far, require_rising, unit_quaternions

_HEAD = b"# timestamp tx ty tz qx qy qz qw\n"


@reader()
def read(path: Path) -> TimedPoses:
    """Read all poses. Times must rise; quaternions within 1e-2 of unit length are made unit ones."""
    rows = read_rows(path, 8, "poses")
    require_rising(rows, rows.values[:, 0])
    refuse_far(rows, rows.values[:, 1:4])
    quats = unit_quaternions(rows, rows.values[:, 4:])
    return TimedPoses(rows.values[:, 0].copy(), rows.values[:, 1:4].copy(), quats)


def write(poses: TimedPoses, path: Path) -> None:
    """Write all poses with as many digits as it takes to read back the same bits."""
    whole = checked(poses, path)
    columns = [whole.times, *whole.xyz.T, *whole.quat_xyzw.T]
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(_HEAD)
        file.writelines(format_rows(columns, " "))
