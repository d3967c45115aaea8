"""Run as KITTI odometry, SemanticKITTI and KITTI object data sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import Scan
from parhelion.core.image import OPTICAL, Image, Intrinsics, SeenObject
from parhelion.core.pose import Floats, Pose
from parhelion.io import poses as kitti_poses
from parhelion.io import raw_scans
from parhelion.io.images import png
from parhelion.io.poses import TimedPoses
from parhelion.motion.actors.body import about, heading_of
from parhelion.motion.boxes import Box
from parhelion.outputs.datasets.base import MOVING_M_S, DatasetSink, cloud_of, hidden_shares
from parhelion.outputs.datasets.boxes import CAMERA_FROM_LIDAR, KITTI_TYPES, movable_truth, wrapped
from parhelion.outputs.datasets.folder import DatasetFolder
from parhelion.outputs.datasets.images import Pair, Pairs, bends, projection_of, straight
from parhelion.world.labels import SEMANTIC_KITTI

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard

# ---- calibration files, and labels of the object benchmark ----------------------------------------------------------
# If a lidar has no camera on its vehicle, a nominal camera replaces all four cameras of KITTI, with the focal length
# and image size of KITTI. It is at the position of the lidar and faces along its x axis, so that tools find the
# matrices that they need.
# Sources: https://www.cvlibs.net/datasets/kitti/setup.php, the readme of the object development kit (Geiger et al.
# 2012).


IMAGE_SIZE = (1242, 375)
"""Width and height of the nominal image [pixels]."""
PROJECTION = np.array([[721.5377, 0.0, 609.5593, 0.0], [0.0, 721.5377, 172.854, 0.0], [0.0, 0.0, 1.0, 0.0]])
"""Nominal camera: focal length and principal point [pixels] of KITTI's object benchmark, without a baseline."""
NEAR_M = 0.1
"""Near plane of the camera [m]."""
OCCLUSION_STEPS = (0.1, 0.5)
"""Largest hidden fractions of fully visible (0) and partly occluded (1) objects; above is largely occluded (2)."""
UNKNOWN_OCCLUSION = 3

# Pairs of corner numbers of the twelve edges of a box: those that differ in one bit.
_EDGES = np.array([(a, a | 1 << k) for a in range(8) for k in range(3) if not a >> k & 1])


def calibration(rows: Mapping[str, ArrayLike]) -> bytes:
    """Calibration file: one line per matrix, with its name and its elements row by row."""
    lines = []
    for name, matrix in rows.items():
        numbers = " ".join(f"{number + 0.0:.12e}" for number in np.asarray(matrix, dtype=np.float64).ravel())
        lines.append(f"{name}: {numbers}\n")
    return "".join(lines).encode()


def odometry_calibration(
    left: Floats = PROJECTION, right: Floats = PROJECTION, camera_from_lidar: Floats | None = None
) -> bytes:
    """Content of calib.txt: P0 and P2 are the left camera (3, 4), P1 and P3 the right one, Tr is lidar to left camera.

    By default, all are the nominal camera.
    """
    if camera_from_lidar is None:
        camera_from_lidar = np.concatenate([CAMERA_FROM_LIDAR, np.zeros((3, 1))], axis=1)
    return calibration({**_cameras(left, right), "Tr": camera_from_lidar})


def _cameras(left: Floats, right: Floats) -> dict[str, Floats]:
    return {f"P{k}": (left, right)[k % 2] for k in range(4)}


def object_calibration(
    camera_from_lidar: Floats, lidar_from_vehicle: Floats, left: Floats = PROJECTION, right: Floats = PROJECTION
) -> bytes:
    """Calibration of a frame: matrices (3, 4) from lidar to camera and (4, 4) from vehicle to lidar, and cameras."""
    return calibration(
        {
            **_cameras(left, right),
            "R0_rect": np.eye(3),
            "Tr_velo_to_cam": camera_from_lidar,
            "Tr_imu_to_velo": lidar_from_vehicle[:3],
        }
    )


@dataclass(frozen=True)
class InPicture:
    """Rectangle of a box in the image [pixels]."""

    left: float
    top: float
    right: float
    bottom: float
    truncated: float
    """Fraction of the rectangle outside the image, 0 to 1."""


def in_picture(
    corners: Floats, projection: Floats = PROJECTION, size: tuple[int, int] = IMAGE_SIZE
) -> InPicture | None:
    """Rectangle around the corners (8, 3) [m] of a box in camera axes; None if it is outside the image."""
    ends = corners[_EDGES]
    depth = ends[:, :, 2]
    # Edges that cross the near plane are clipped there, because points behind a camera cannot be projected.
    crossing = (depth[:, 0] - NEAR_M) * (depth[:, 1] - NEAR_M) < 0.0
    share = (NEAR_M - depth[crossing, 0]) / (depth[crossing, 1] - depth[crossing, 0])
    cut = ends[crossing, 0] + share[:, None] * (ends[crossing, 1] - ends[crossing, 0])
    seen = np.concatenate([corners[corners[:, 2] >= NEAR_M], cut])
    if not len(seen):
        return None
    flat = seen @ projection[:, :3].T
    pixels = flat[:, :2] / flat[:, 2:]
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    edge = np.array(size, dtype=np.float64) - 1.0
    inner_low, inner_high = np.clip(low, 0.0, edge), np.clip(high, 0.0, edge)
    inside = float(np.prod(inner_high - inner_low))
    if inside <= 0.0:
        return None
    whole = float(np.prod(high - low))
    left, top = inner_low.tolist()
    right, bottom = inner_high.tolist()
    return InPicture(left, top, right, bottom, min(max(1.0 - inside / whole, 0.0), 1.0))


def occlusion(hidden: float) -> int:
    """KITTI's occlusion level of a hidden fraction: 0 none, 1 partly, 2 largely, 3 unknown (NaN)."""
    if not np.isfinite(hidden):
        return UNKNOWN_OCCLUSION
    return int(np.searchsorted(OCCLUSION_STEPS, hidden))


def label_line(
    kind: str, size: Floats, foot: Floats, rotation_y: float, *, picture: InPicture | None, occluded: int
) -> str:
    """Line of a label file (15 words).

    `size` is length, width and height [m], `foot` the centre of the lower face [m] in camera axes, `rotation_y` [rad]
    the rotation about the camera's y axis. An object outside the image has truncation 1 and rectangle -1 -1 -1 -1.
    """
    length, width, height = size.tolist()
    rotation = wrapped(rotation_y)
    alpha = wrapped(rotation - float(np.arctan2(foot[0], foot[2])))
    rectangle = (-1.0,) * 4 if picture is None else (picture.left, picture.top, picture.right, picture.bottom)
    truncated = 1.0 if picture is None else picture.truncated
    numbers = [alpha, *rectangle, height, width, length, *foot.tolist(), rotation]
    return " ".join([kind, f"{truncated:.2f}", str(occluded), *(f"{number + 0.0:.4f}" for number in numbers)])


# ---- classes of SemanticKITTI ---------------------------------------------------------------------------------------
# Source: Behley et al., "SemanticKITTI: A Dataset for Semantic Scene Understanding of LiDAR Sequences", ICCV 2019, and
# its label definition.


OUTLIER = "outlier"
OTHER = "other-object"
"""Class of objects without a class of their own."""

NEAREST: Mapping[str, str] = {
    "vehicle": "other-vehicle", "vessel": "other-vehicle", "forklift": "other-vehicle", "robot": "other-vehicle",
    "floor": "other-ground", "ground": "other-ground", "quay": "other-ground", "water": "other-ground",
    "rail": "other-ground", "rock": "terrain",
    "wall": "building", "ceiling": "building", "roof": "building", "window": "building", "door": "building",
    "railing": "fence",
    "bridge": "other-structure", "crane": "other-structure", "tank": "other-structure", "pipe": "other-structure",
    "column": "other-structure", "stairs": "other-structure",
}  # fmt: skip
"""Nearest class of labels that SemanticKITTI does not have; all further ones are `OTHER`."""

MOVING: Mapping[str, str] = {
    "car": "moving-car",
    "bicyclist": "moving-bicyclist",
    "person": "moving-person",
    "motorcyclist": "moving-motorcyclist",
    "on-rails": "moving-on-rails",
    "bus": "moving-bus",
    "truck": "moving-truck",
    "other-vehicle": "moving-other-vehicle",
}
"""Class of moving objects, by the class of the same object at rest."""

COUNTABLE = (
    "car",
    "bicycle",
    "bus",
    "motorcycle",
    "on-rails",
    "truck",
    "other-vehicle",
    "person",
    "bicyclist",
    "motorcyclist",
    *MOVING.values(),
)
"""Classes whose points carry an instance number."""

LEARNING: tuple[tuple[str, ...], ...] = (
    ("unlabeled", "outlier", "other-structure", "other-object"), ("car", "moving-car"), ("bicycle",), ("motorcycle",),
    ("truck", "moving-truck"),
    ("other-vehicle", "bus", "on-rails", "moving-bus", "moving-on-rails", "moving-other-vehicle"),
    ("person", "moving-person"), ("bicyclist", "moving-bicyclist"), ("motorcyclist", "moving-motorcyclist"),
    ("road", "lane-marking"), ("parking",), ("sidewalk",), ("other-ground",), ("building",), ("fence",),
    ("vegetation",), ("trunk",), ("terrain",), ("pole",), ("traffic-sign",),
)  # fmt: skip
"""Learned classes from 0 (ignored) to 19: for each, its name and the other labels that belong to it."""

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "unlabeled": (0, 0, 0), "outlier": (0, 0, 255), "car": (245, 150, 100), "bicycle": (245, 230, 100),
    "bus": (250, 80, 100), "motorcycle": (150, 60, 30), "on-rails": (255, 0, 0), "truck": (180, 30, 80),
    "other-vehicle": (255, 0, 0), "person": (30, 30, 255), "bicyclist": (200, 40, 255), "motorcyclist": (90, 30, 150),
    "road": (255, 0, 255), "parking": (255, 150, 255), "sidewalk": (75, 0, 75), "other-ground": (75, 0, 175),
    "building": (0, 200, 255), "fence": (50, 120, 255), "other-structure": (0, 150, 255),
    "lane-marking": (170, 255, 150), "vegetation": (0, 175, 0), "trunk": (0, 60, 135), "terrain": (80, 240, 150),
    "pole": (150, 240, 255), "traffic-sign": (0, 0, 255), "other-object": (255, 255, 50),
}  # fmt: skip
"""Colours in SemanticKITTI's tools, blue green red; moving objects have the colour of the same object at rest."""


def class_of(word: str, numbers: Mapping[str, int]) -> str:
    """SemanticKITTI class of a label; `numbers` are the label numbers of its classes."""
    return word if word in numbers else NEAREST.get(word, OTHER)


class ClassTable:
    """Converts label numbers of a world to those of SemanticKITTI, vectorised."""

    def __init__(self, names: Mapping[int, str], numbers: Mapping[str, int]) -> None:
        self.names = dict(names)
        self.classes = {word: class_of(word, numbers) for word in self.names.values()}
        self.at_rest: NDArray[np.uint16] = np.zeros(1 << 16, np.uint16)
        for number, word in self.names.items():
            self.at_rest[number] = numbers[self.classes[word]]
        self.moving: NDArray[np.uint16] = np.arange(1 << 16, dtype=np.uint16)
        for word, goes in MOVING.items():
            self.moving[numbers[word]] = numbers[goes]
        self.is_countable: NDArray[np.bool_] = np.zeros(1 << 16, bool)
        self.is_countable[[numbers[word] for word in COUNTABLE]] = True


def config_file(numbers: Mapping[str, int], sequences: Sequence[int]) -> bytes:
    """Content of semantic-kitti.yaml for SemanticKITTI's tools. Every sequence is in train and valid."""
    resting = {goes: word for word, goes in MOVING.items()}
    learned = {word: row for row, words in enumerate(LEARNING) for word in words}
    content: dict[str, Any] = {
        "labels": {number: word for word, number in numbers.items()},
        "color_map": {number: list(COLOURS[resting.get(word, word)]) for word, number in numbers.items()},
        "learning_map": {number: learned[word] for word, number in numbers.items()},
        "learning_map_inv": {row: numbers[words[0]] for row, words in enumerate(LEARNING)},
        "learning_ignore": {row: row == 0 for row in range(len(LEARNING))},
        "split": {"train": list(sequences), "valid": list(sequences), "test": []},
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


def map_file(words: Mapping[str, int], numbers: Mapping[str, int]) -> bytes:
    """Content of label-map.yaml: for every label of the run, its number in our clouds and its SemanticKITTI class."""
    rows = {}
    for word, number in sorted(words.items(), key=lambda item: item[1]):
        name = class_of(word, numbers)
        rows[word] = {"ours": number, "class": name, "number": numbers[name]}
        if name in MOVING:
            rows[word]["moving"] = numbers[MOVING[name]]
    note = "# Our words, their numbers in clouds of this run, and SemanticKITTI's classes that they became.\n"
    return (note + yaml.safe_dump({"labels": rows}, sort_keys=False)).encode()


# ---- sinks ----------------------------------------------------------------------------------------------------------


class _PairedSink(DatasetSink):
    """Data set whose scans are written together with the nearest pictures in time."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._pairs = Pairs(scenario, self.scanners)

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan if its picture is available."""
        for pair in self._pairs.scan(scanner, number, scan):
            self.write_pair(pair)

    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write the scans that wait for a picture."""
        for pair in self._pairs.image(camera, number, image):
            self.write_pair(pair)

    @abstractmethod
    def write_pair(self, pair: Pair) -> None:
        """Write a scan with its picture."""


# ---- KITTI odometry and SemanticKITTI --------------------------------------------------------------------------------


class KittiOdometrySink(_PairedSink):
    """Writes sequences/<nn>/velodyne, calib.txt and times.txt, and poses/<nn>.txt; one sequence per lidar."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._sequences = {name: f"{row:02d}" for row, name in enumerate(self.scanners)}
        self._poses: dict[str, list[tuple[float, Pose]]] = {}
        self._lenses: dict[str, Intrinsics] = {}

    def write_pair(self, pair: Pair) -> None:
        """Write a scan with its picture, and store its time and pose."""
        name = pair.scanner.name
        sequence = f"sequences/{self._sequences[name]}"
        self.write_scan(pair.scanner, pair.scan, sequence, f"{pair.number:06d}")
        if pair.image is not None:
            write_pictures(self.folder, pair.image, sequence, f"{pair.number:06d}")
            if pair.image.intrinsics is not None:
                self._lenses[name] = pair.image.intrinsics
        self._poses.setdefault(name, []).append((pair.scan.start_time, pair.scan.pose @ self._to_camera(name)))

    def _to_camera(self, name: str) -> Pose:
        """Pose of the camera (x forward) in the lidar frame; the identity for the nominal camera."""
        camera = self._pairs.cameras.get(name)
        return Pose() if camera is None else self.scanners[name].mount.inverse() @ camera.mount

    def write_scan(self, scanner: FrameOnBoard, scan: Scan, sequence: str, number: str) -> None:
        """Write the files of a scan."""
        raw_scans.write_kitti(cloud_of(scan, scanner, 1.0), self.folder.place(f"{sequence}/velodyne/{number}.bin"))

    def finish(self) -> None:
        """Write calibration, times and poses."""
        for name, frames in self._poses.items():
            sequence = self._sequences[name]
            first = frames[0][1].inverse()
            poses = [first @ pose for _, pose in frames]
            times = np.array([time for time, _ in frames])
            track = TimedPoses(times, np.array([one.xyz for one in poses]), np.array([one.quat_xyzw for one in poses]))
            self.folder.write(f"sequences/{sequence}/calib.txt", self._calibration(name))
            times_file = self.folder.place(f"sequences/{sequence}/times.txt")
            for place in self.pose_files(sequence):
                kitti_poses.write_kitti(track, self.folder.place(place), times=times_file, axes="camera")

    def _calibration(self, name: str) -> bytes:
        if name not in self._lenses:
            return odometry_calibration()
        lens = self._lenses[name]
        camera_from_lidar = (self._to_camera(name) @ OPTICAL).inverse().matrix[:3]
        return odometry_calibration(projection_of(lens), projection_of(lens, right=True), camera_from_lidar)

    def pose_files(self, sequence: str) -> list[str]:
        """Files in which tools expect the poses of a sequence."""
        return [f"poses/{sequence}.txt"]


class SemanticKittiSink(KittiOdometrySink):
    """Writes the files of KITTI odometry, sequences/<nn>/labels, and the definition of the labels."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._movable = sorted(self.movable())
        self._table = ClassTable({}, SEMANTIC_KITTI)
        self._words: dict[str, int] = {}

    def write_scan(self, scanner: FrameOnBoard, scan: Scan, sequence: str, number: str) -> None:
        """Write a scan and its labels."""
        label, instance = self.labels_of(scan, scanner)
        cloud = cloud_of(scan, scanner, 1.0).with_fields(label=label, instance=instance)
        raw_scans.write_kitti(
            cloud,
            self.folder.place(f"{sequence}/velodyne/{number}.bin"),
            labels=self.folder.place(f"{sequence}/labels/{number}.label"),
        )

    def labels_of(self, scan: Scan, scanner: FrameOnBoard) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
        """Class of every point, and instance number on countable objects; drops and multipath points are outliers."""
        names = scan.names["label"]
        if self._table.names != names:
            self._table = ClassTable(names, SEMANTIC_KITTI)
            self._words |= {word: number for number, word in names.items()}
        ours = scan.fields["instance"]
        # One foot of a walking person is at rest, so the fastest point of an instance decides.
        speed = np.linalg.norm(scan.fields["velocity"], axis=1)
        moves = np.isin(ours, np.unique(ours[speed > MOVING_M_S]))
        label = self._table.at_rest[scan.fields["label"]]
        label = np.where(moves, self._table.moving[label], label)
        own = np.isin(ours, self.scenario.own_instances(scanner))
        stray = (scan.fields["origin"] != 0) | own
        label = np.where(stray, np.uint16(SEMANTIC_KITTI[OUTLIER]), label)
        countable = self._table.is_countable[label] | np.isin(ours, self._movable)
        return label, np.where(countable & ~stray, ours, np.uint32(0))

    def pose_files(self, sequence: str) -> list[str]:
        """Files in which tools expect the poses: SemanticKITTI in the sequence, KITTI in a common folder."""
        return [f"poses/{sequence}.txt", f"sequences/{sequence}/poses.txt"]

    def finish(self) -> None:
        """Write calibration, times, poses and the definition of the labels."""
        super().finish()
        sequences = [int(self._sequences[name]) for name in self._poses]
        self.folder.write("semantic-kitti.yaml", config_file(SEMANTIC_KITTI, sequences))
        self.folder.write("label-map.yaml", map_file(self._words, SEMANTIC_KITTI))


# ---- KITTI object ----------------------------------------------------------------------------------------------------


class KittiObjectSink(_PairedSink):
    """Writes training/velodyne, calib and label_2; the frames of all lidars one after the other."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        counts = [scanner.count(scenario.duration_s) for scanner in self.scanners.values()]
        self._first = dict(zip(self.scanners, np.cumsum([0, *counts]).tolist(), strict=False))
        self._truth = {name: movable_truth(scenario, scanner) for name, scanner in self.scanners.items()}
        self._frames: list[tuple[int, str, int, float]] = []

    def write_pair(self, pair: Pair) -> None:
        """Write a scan with its picture, calibration and boxes."""
        scanner, number, scan, image = pair.scanner, pair.number, pair.scan, pair.image
        frame = self._first[scanner.name] + number
        sensor, lens = scan.pose, None if image is None else image.intrinsics
        if image is not None and lens is not None:
            camera = image.pose
            cameras = (projection_of(lens), projection_of(lens, right=True))
            camera_from_lidar = ((camera @ OPTICAL).inverse() @ sensor).matrix[:3]
            size = (lens.width, lens.height)
        else:
            camera = Pose(sensor.xyz, about(2, heading_of(sensor.quat_xyzw[None])[0]))
            cameras = (PROJECTION, PROJECTION)
            camera_from_lidar = (OPTICAL.inverse() @ camera.inverse() @ sensor).matrix[:3]
            size = IMAGE_SIZE
        calibration = object_calibration(camera_from_lidar, scanner.mount.inverse().matrix, *cameras)
        around, ahead = [], []
        for box, hidden in hidden_shares(scan, self._truth[scanner.name].of(scan, "points")):
            line, in_view = object_line(box.seen_from(camera), hidden, cameras[0], size)
            around.append(line)
            ahead += [line] * in_view
        if image is not None:
            write_pictures(self.folder, image, "training", f"{frame:06d}")
            if image.objects and lens is not None:
                ahead = self._seen(scanner, image, lens)
        cloud = cloud_of(scan, scanner, 1.0)
        raw_scans.write_kitti(cloud, self.folder.place(f"training/velodyne/{frame:06d}.bin"))
        self.folder.write(f"training/calib/{frame:06d}.txt", calibration)
        for name, lines in (("label_2", ahead), ("label_360", around)):
            self.folder.write(f"training/{name}/{frame:06d}.txt", "".join(f"{line}\n" for line in lines).encode())
        self._frames.append((frame, scanner.name, number, scan.start_time))

    def _seen(self, scanner: FrameOnBoard, image: Image, lens: Intrinsics) -> list[str]:
        """Lines of the visible moving and movable objects, except the robot itself."""
        movable = self.movable() - set(self.scenario.own_instances(scanner))
        words = image.names.get("label", {})
        return [seen_line(one, words.get(one.label, ""), lens) for one in image.objects if one.instance in movable]

    def finish(self) -> None:
        """Write the lists of frames."""
        self._frames.sort()
        numbers = "".join(f"{frame:06d}\n" for frame, *_ in self._frames).encode()
        for name in ("train", "trainval"):
            self.folder.write(f"ImageSets/{name}.txt", numbers)
        rows = "".join(f"{frame:06d},{name},{scan},{time!r}\n" for frame, name, scan, time in self._frames)
        self.folder.write("frames.csv", f"frame,lidar,scan,time_s\n{rows}".encode())


def write_pictures(folder: DatasetFolder, image: Image, place: str, number: str) -> None:
    """Write the undistorted image_2, and image_3 of a stereo pair."""
    for name, pixels in (("image_2", image.colour), ("image_3", image.right)):
        if pixels is not None:
            folder.write(f"{place}/{name}/{number}.png", png.encode(straight(pixels, image)))


def seen_line(one: SeenObject, word: str, lens: Intrinsics) -> str:
    """Label line of a visible object; its rectangle is that of the whole object without occlusion."""
    rotation = one.pose.rotation
    size = np.array(one.size_m)
    if bends(lens):
        bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
        corners = one.pose.apply((bits - 0.5) * size)
        picture = in_picture(corners @ CAMERA_FROM_LIDAR.T, projection_of(lens), (lens.width, lens.height))
    else:
        left, top, right, bottom = one.full_box
        # KITTI's rectangles are inclusive, ours are exclusive at right and bottom.
        picture = InPicture(left, top, right - 1.0, bottom - 1.0, one.truncation)
    foot = CAMERA_FROM_LIDAR @ (one.pose.xyz - 0.5 * size[2] * rotation[:, 2])
    ahead = CAMERA_FROM_LIDAR @ rotation[:, 0]
    rotation_y = float(np.arctan2(-ahead[2], ahead[0]))
    kind, occluded = KITTI_TYPES.get(word, "Misc"), occlusion(one.occlusion)
    return label_line(kind, size, foot, rotation_y, picture=picture, occluded=occluded)


def object_line(
    box: Box, hidden: float, projection: Floats = PROJECTION, size: tuple[int, int] = IMAGE_SIZE
) -> tuple[str, bool]:
    """Label line of a box in the camera frame (x forward), and whether it is in the image."""
    picture = in_picture(box.corners() @ CAMERA_FROM_LIDAR.T, projection, size)
    foot = CAMERA_FROM_LIDAR @ (box.centre - np.array([0.0, 0.0, 0.5 * box.size[2]]))
    rotation_y = -box.yaw - 0.5 * np.pi
    kind = KITTI_TYPES.get(box.label, "Misc")
    line = label_line(kind, box.size, foot, rotation_y, picture=picture, occluded=occlusion(hidden))
    return line, picture is not None
