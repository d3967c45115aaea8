"""Folder of a data set: written under a temporary name and renamed when complete; and the hidden fraction of boxes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan, Shots
from parhelion.core.errors import FormatError
from parhelion.core.files import sync
from parhelion.core.pose import Floats
from parhelion.sensors.optics.lidar.patterns import ShotTable

README = "README.txt"
"""File that describes the data set; a folder without it is never replaced."""
FIRST_LINE = "Parhelion data set: "


class DatasetFolder:
    """Folder of one data set. An existing one is replaced only when the new one is complete.

    folder = DatasetFolder(Path("out/nuscenes"), "nuScenes", "Description of the contents.")
    folder.write("maps/1.png", data)
    write_kitti(cloud, folder.place("training/velodyne/000000.bin"))
    folder.close()                      # renames the folder to out/nuscenes
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
            if self._earlier.exists() and not path.exists():  # an earlier `close` was stopped between its two renames
                self._earlier.rename(path)
            for place in (self._stage, self._earlier):
                _remove(place)
        except OSError as error:
            raise FormatError(f"{path}: the folder cannot be created ({error.strerror or error})") from None
        self._readme = f"{FIRST_LINE}{kind}\n\n{about.strip()}\n".encode()

    @property
    def files(self) -> list[Path]:
        """Paths of all files after `close`."""
        return [self.path / name for name in sorted(self._names)]

    def place(self, name: str) -> Path:
        """Temporary path for a file of the data set; its folder is created."""
        # The README is written first, so that the remains of a killed run are recognised as ours.
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
        """Write a file of the data set."""
        try:
            self.place(name).write_bytes(data)
        except OSError as error:
            raise FormatError(f"{self.path / name}: cannot be written ({error.strerror or error})") from None

    def close(self) -> None:
        """Rename the folder to its final name and remove an existing one."""
        if not self._open:
            return
        self._open = False
        self.place(README)
        try:
            for name in sorted(self._names):
                sync(self._stage / name)
            if self.path.exists():
                self.path.rename(self._earlier)
            self._stage.rename(self.path)
            _remove(self._earlier)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written ({error.strerror or error})") from None

    def discard(self) -> None:
        """Remove what was written; an existing data set stays unchanged."""
        if self._open:
            self._open = False
            shutil.rmtree(self._stage, ignore_errors=True)


def _only_a_dataset(folder: Path) -> None:
    """Raise FormatError if a folder is not a data set that Parhelion wrote."""
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
        raise FormatError(f"{folder}: is not a data set of an earlier run, so it is not replaced")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


# ---- content of README.txt ------------------------------------------------------------------------------------------


_CAMERA = """

image_2 is the first camera on the lidar's vehicle, image_3 its second lens if it has two: the undistorted picture
nearest in time to the start of the scan. P0 and P2 are the left picture, P1 and P3 the right one. Without a camera
there are no pictures, and the calibration is that of a nominal camera at the position of the lidar that faces along its
x axis. Points are deskewed: they are in the lidar frame at the start of the scan. Intensity is on Velodyne's scale, 0
to 255, divided by 255.
"""

TITLES = {
    "kitti-odometry": "KITTI odometry",
    "semantic-kitti": "SemanticKITTI",
    "kitti-object": "KITTI object",
    "nuscenes": "nuScenes",
    "coco-panoptic": "COCO panoptic",
}
"""Name of the data set, by kind."""

ABOUT = {
    "kitti-odometry": """
One sequence per lidar, times on the clock of the run [s], and the poses of the camera in its first frame.
"""
    + _CAMERA,
    "semantic-kitti": """
Like KITTI odometry, with a class and an instance for every point. semantic-kitti.yaml is for SemanticKITTI's tools,
label-map.yaml maps the labels of this run to classes.
"""
    + _CAMERA,
    "kitti-object": """
frames.csv lists the scan of each frame. label_2 contains objects in the picture, label_360 objects all around.
Tr_velo_to_cam transforms from the lidar at the start of the scan to the camera at the start of the picture. A nominal
camera is level even if the lidar is not, so that boxes are upright in its frame. A real camera is as mounted, and
rotation_y is about its y axis.
"""
    + _CAMERA,
    "nuscenes": """
Load it as version v1.0-mini. The global frame is the world frame, timestamps are on the clock of the run [us]. It
contains lidars, cameras and radars: LIDAR_TOP is the first lidar of a vehicle, CAM_FRONT a camera called front, and
RADAR_FRONT a radar called front, with velocities along the line of sight. Points are deskewed: they are in the lidar
frame at the start of the scan. Intensity is on Velodyne's scale, 0 to 255. Pictures are undistorted PNG files.
""",
    "coco-panoptic": """
images contains the pictures of all cameras with the distortion of their lenses, annotations/panoptic the segments of
each as a PNG file, and annotations/panoptic.json their description. A segment number is red + 256 green + 65536 blue:
the number of the label for static surfaces, 65536 + the instance for moving and movable objects, 0 without a surface.
""",
}
"""Description of the contents, by kind."""


# ---- fraction of an object that others hide from a lidar, estimated from the shots ----------------------------------


SLACK_M = 0.1
"""Tolerance for range noise [m]: a return this close in front of a box still counts as on it."""


def first_ranges(scan: Scan) -> Floats:
    """Range [m] of the nearest surface return of every shot; infinite without one."""
    ranges = np.full(len(scan.shots), np.inf)
    distance, shot = scan.fields["range"], scan.fields["shot"]
    if "origin" in scan.fields:  # drops do not occlude
        solid = scan.fields["origin"] == 0
        distance, shot = distance[solid], shot[solid]
    np.minimum.at(ranges, shot, distance.astype(np.float64))
    return ranges


class HiddenShare:
    """Fractions of boxes that other objects hide, estimated from the shots of one scan."""

    def __init__(self, shots: Shots | ShotTable, first_m: Floats) -> None:
        """Take the shots of a scan, and the range [m] of the nearest surface return of each, infinite without one."""
        self._origin = shots.origin.astype(np.float64)
        self._direction = shots.direction.astype(np.float64)
        self._first = first_m

    def of(self, centre: Floats, half: Floats, axes: Floats) -> float:
        """Fraction of the shots through a box that end in front of it; NaN if no shot passes through it.

        `centre` (3,) and half lengths `half` (3,) are in metres, `axes` (3, 3) has the axes of the box as columns, all
        in the sensor frame at the time of the shots. Occlusion is equally likely for shots that would hit the object
        and for shots that would miss it within its box, so this is also the hidden fraction of the object.
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
        """Origins, directions and first ranges of the shots that may intersect a sphere."""
        away = centre - self._origin
        ahead = np.einsum("ij,ij->i", away, self._direction)
        off = np.einsum("ij,ij->i", away, away) - ahead * ahead
        rows = np.flatnonzero((off <= radius * radius) & (ahead > -radius))
        return self._origin[rows], self._direction[rows], self._first[rows]
