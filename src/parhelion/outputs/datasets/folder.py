"""A data set's folder: written beside its place under another name, and put there when it is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError
from parhelion.core.pose import Floats

README = "README.txt"
"""Every data set says in this file what it is; a folder without it is not replaced."""
FIRST_LINE = "Parhelion data set: "


class DatasetFolder:
    """The folder of one data set. An earlier one of the same name stays until the new one is whole.

    folder = DatasetFolder(Path("out/nuscenes"), "nuScenes", "What is in it.")
    folder.write("maps/1.png", data)
    kitti.write(cloud, folder.place("training/velodyne/000000.bin"))
    folder.close()                      # out/nuscenes is there
    """

    def __init__(self, path: Path, kind: str, about: str) -> None:
        self.path = path
        self._stage = path.with_name(f"{path.name}.new")
        self._earlier = path.with_name(f"{path.name}.old")
        self._names: set[str] = set()
        self._open = True
        for place in (path, self._stage, self._earlier):
            _only_a_dataset(place)
        try:
            if self._earlier.exists() and not path.exists():  # stopped between the two renames of an earlier `close`
                self._earlier.rename(path)
            for place in (self._stage, self._earlier):
                _remove(place)
        except OSError as error:
            raise FormatError(f"{path}: the folder cannot be made ({error.strerror or error})") from None
        self._readme = f"{FIRST_LINE}{kind}\n\n{about.strip()}\n".encode()

    @property
    def files(self) -> list[Path]:
        """All files, where they are once the folder is closed."""
        return [self.path / name for name in sorted(self._names)]

    def place(self, name: str) -> Path:
        """Where to write a file of the set now; its folder is made."""
        # The note comes first, so that what a killed run leaves is known as ours; before it, nothing is there at all.
        if not self._names:
            self._names.add(README)
            self.write(README, self._readme)
        file = self._stage / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FormatError(f"{self.path / name}: cannot be written ({error.strerror or error})") from None
        self._names.add(name)
        return file

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the set."""
        try:
            self.place(name).write_bytes(data)
        except OSError as error:
            raise FormatError(f"{self.path / name}: cannot be written ({error.strerror or error})") from None

    def close(self) -> None:
        """Put the folder in its place; an earlier one is removed only now."""
        if not self._open:
            return
        self._open = False
        self.place(README)
        try:
            if self.path.exists():
                self.path.rename(self._earlier)
            self._stage.rename(self.path)
            _remove(self._earlier)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written ({error.strerror or error})") from None

    def discard(self) -> None:
        """Take back what was written; an earlier data set of the same name stays."""
        if self._open:
            self._open = False
            shutil.rmtree(self._stage, ignore_errors=True)


def _only_a_dataset(folder: Path) -> None:
    """Refuse to replace what was not written here."""
    try:
        if not folder.exists() and not folder.is_symlink():
            return
        ours = folder.is_dir() and not folder.is_symlink()
        if ours and any(folder.iterdir()):
            note = folder / README
            ours = note.is_file() and note.read_bytes().startswith(FIRST_LINE.encode())
    except OSError as error:
        raise FormatError(f"{folder}: cannot be read ({error.strerror or error})") from None
    if not ours:
        raise FormatError(f"{folder}: is not the folder of a data set of an earlier run, so it is not replaced")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


# ---- What each data set's README.txt says ---------------------------------------------------------------------------


_CAMERA = """

image_2 is the first camera on the lidar's vehicle, image_3 its second lens where it has two: the picture nearest in
time to the scan's start, with the distortion of the lens taken out. P0 and P2 are the left picture, P1 and P3 the right
one. Without a camera there are no pictures, and the camera of the calibration is a nominal one that sits in the lidar
and looks along its x axis. The sensor's own motion during a scan is taken out: points are in the lidar's frame at the
scan's start. Intensity is that of Velodyne's scale, 0 to 255, divided by 255.
"""

TITLES = {
    "kitti-odometry": "KITTI odometry",
    "semantic-kitti": "SemanticKITTI",
    "kitti-object": "KITTI object",
    "nuscenes": "nuScenes",
    "coco-panoptic": "COCO panoptic",
}
"""The sets by kind."""

ABOUT = {
    "kitti-odometry": """
A sequence for every lidar, times on the run's clock [s], and the poses of the camera in its first frame.
"""
    + _CAMERA,
    "semantic-kitti": """
As KITTI odometry, with a class and an instance for every point. semantic-kitti.yaml is for the set's own tools,
label-map.yaml says what the words of this run became.
"""
    + _CAMERA,
    "kitti-object": """
frames.csv says which scan a frame is. label_2 holds what is in the picture, label_360 all around. Tr_velo_to_cam goes
from the lidar at the scan's start to the camera at the picture's. A nominal camera is level, whatever the lidar is, so
that boxes stand upright in its frame; a real one is as it is mounted, and rotation_y is about its y axis.
"""
    + _CAMERA,
    "nuscenes": """
Load it as version v1.0-mini. The global frame is the world's, timestamps are on the run's clock in microseconds.
Lidars, cameras and radars are there; LIDAR_TOP is the first lidar of a vehicle, CAM_FRONT a camera called front and
RADAR_FRONT such a radar, whose velocities are those along the line of sight. Points are in the lidar's frame at the
scan's start, the vehicle's motion during it taken out; intensity is that of Velodyne's scale, 0 to 255. Pictures are
PNG files with the distortion of the lens taken out.
""",
    "coco-panoptic": """
images holds the pictures of all cameras, as their lenses saw them, annotations/panoptic the segments of each as a PNG
file, and annotations/panoptic.json what they are. A segment's number is red + 256 green + 65536 blue: the number of the
label for stuff, 65536 + the instance for things, 0 where nothing is seen. Things are labels of what moves or can be
moved.
""",
}
"""What is in a set, by kind."""


# ---- How much of a thing is hidden from a lidar by others, told from its shots --------------------------------------


SLACK_M = 0.1
"""A return this little [m] before a box is still on it: range noise."""


def first_ranges(scan: Scan) -> Floats:
    """Range [m] of every shot's nearest return from a surface; infinite where it met none."""
    ranges = np.full(len(scan.shots), np.inf)
    distance, shot = scan.fields["range"], scan.fields["shot"]
    if "origin" in scan.fields:  # drops hide nothing
        solid = scan.fields["origin"] == 0
        distance, shot = distance[solid], shot[solid]
    np.minimum.at(ranges, shot, distance.astype(np.float64))
    return ranges


class HiddenShare:
    """Shares of boxes that other things hide, for the shots of one scan."""

    def __init__(self, scan: Scan) -> None:
        self._origin = scan.shots.origin.astype(np.float64)
        self._direction = scan.shots.direction.astype(np.float64)
        self._first = first_ranges(scan)

    def of(self, centre: Floats, half: Floats, axes: Floats) -> float:
        """Share of the shots through a box that end before it; NaN where none goes through it.

        `centre` (3,) and half lengths `half` (3,) in metres, `axes` (3, 3) with the box's axes as columns, all in the
        sensor's frame at the time of the shots. Shots end before the box as often where they would have met the thing
        in it as where not, so this is the hidden share of the thing, too.
        """
        start, along, first = self._near(centre, float(np.linalg.norm(half)))
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / (along @ axes)
            a, b = ((side * half - (start - centre) @ axes) * inverse for side in (-1.0, 1.0))
        enter, leave = np.minimum(a, b).max(axis=1), np.maximum(a, b).min(axis=1)
        through: NDArray[np.bool_] = (enter <= leave) & (leave > 0.0)
        count = int(np.count_nonzero(through))
        return float(np.count_nonzero(through & (first < enter - SLACK_M)) / count) if count else float("nan")

    def _near(self, centre: Floats, radius: float) -> tuple[Floats, Floats, Floats]:
        """Origins, directions and first ranges of the shots that may meet a ball."""
        away = centre - self._origin
        ahead = np.einsum("ij,ij->i", away, self._direction)
        off = np.einsum("ij,ij->i", away, away) - ahead * ahead
        rows = np.flatnonzero((off <= radius * radius) & (ahead > -radius))
        return self._origin[rows], self._direction[rows], self._first[rows]
