"""A run as KITTI odometry, SemanticKITTI and KITTI object."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import OPTICAL, Image, Intrinsics, SeenObject
from parhelion.core.pose import Floats, Pose
from parhelion.core.records import Scan
from parhelion.io import kitti, kitti_poses
from parhelion.io.datasets import kitti as layout
from parhelion.io.datasets import semantic_kitti
from parhelion.io.datasets.folder import DatasetFolder
from parhelion.io.images import png
from parhelion.io.timed_poses import TimedPoses
from parhelion.motion.actors.body import about, heading_of
from parhelion.motion.boxes import Box
from parhelion.outputs.boxes import KITTI_TYPES
from parhelion.outputs.dataset_base import MOVING_M_S, DatasetSink, cloud_of, hidden_shares
from parhelion.outputs.dataset_images import Pair, Pairs, bends, projection_of, straight
from parhelion.world.labels import SEMANTIC_KITTI

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard


# ---- KITTI odometry and SemanticKITTI --------------------------------------------------------------------------------


class KittiOdometrySink(DatasetSink):
    """sequences/<nn>/velodyne, calib.txt and times.txt, and poses/<nn>.txt; a sequence for every lidar."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._sequences = {name: f"{row:02d}" for row, name in enumerate(self.scanners)}
        self._poses: dict[str, list[tuple[float, Pose]]] = {}
        self._pairs = Pairs(scenario, self.scanners)
        self._lenses: dict[str, Intrinsics] = {}

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan with its picture, and note its time and pose."""
        self._write(self._pairs.scan(scanner, number, scan))

    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write the scans that wait for a picture."""
        self._write(self._pairs.image(camera, number, image))

    def _write(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            name = pair.scanner.name
            sequence = f"sequences/{self._sequences[name]}"
            self.write_scan(pair.scanner, pair.scan, sequence, f"{pair.number:06d}")
            if pair.image is not None:
                write_pictures(self.folder, pair.image, sequence, f"{pair.number:06d}")
                if pair.image.intrinsics is not None:
                    self._lenses[name] = pair.image.intrinsics
            self._poses.setdefault(name, []).append((pair.scan.start_time, pair.scan.pose @ self._to_camera(name)))

    def _to_camera(self, name: str) -> Pose:
        """The camera (x forward) in the lidar's frame; the nominal one is the lidar's."""
        camera = self._pairs.cameras.get(name)
        return Pose() if camera is None else self.scanners[name].mount.inverse() @ camera.mount

    def write_scan(self, scanner: FrameOnBoard, scan: Scan, sequence: str, number: str) -> None:
        """Write the files of a scan."""
        kitti.write(cloud_of(scan, scanner, 1.0), self.folder.place(f"{sequence}/velodyne/{number}.bin"))

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
                kitti_poses.write(track, self.folder.place(place), times=times_file, axes="camera")

    def _calibration(self, name: str) -> bytes:
        if name not in self._lenses:
            return layout.odometry_calibration()
        lens = self._lenses[name]
        turn = (self._to_camera(name) @ OPTICAL).inverse().matrix[:3]
        return layout.odometry_calibration(projection_of(lens), projection_of(lens, right=True), turn)

    def pose_files(self, sequence: str) -> list[str]:
        """Where tools look for a sequence's poses."""
        return [f"poses/{sequence}.txt"]


class SemanticKittiSink(KittiOdometrySink):
    """As for KITTI odometry, with sequences/<nn>/labels and the files that say what the labels are."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._movable = sorted(self.movable())
        self._table = semantic_kitti.ClassTable({}, SEMANTIC_KITTI)
        self._words: dict[str, int] = {}

    def write_scan(self, scanner: FrameOnBoard, scan: Scan, sequence: str, number: str) -> None:
        """Write a scan and its labels."""
        label, instance = self.labels_of(scan, scanner)
        cloud = cloud_of(scan, scanner, 1.0).with_fields(label=label, instance=instance)
        kitti.write(
            cloud,
            self.folder.place(f"{sequence}/velodyne/{number}.bin"),
            labels=self.folder.place(f"{sequence}/labels/{number}.label"),
        )

    def labels_of(self, scan: Scan, scanner: FrameOnBoard) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
        """SemanticKITTI's class of every point, and the instance of those on things; drops and ghosts are outliers."""
        names = scan.names["label"]
        if self._table.names != names:
            self._table = semantic_kitti.ClassTable(names, SEMANTIC_KITTI)
            self._words |= {word: number for number, word in names.items()}
        ours = scan.fields["instance"]
        # Of a walking person one foot stands: the fastest point tells.
        speed = np.linalg.norm(scan.fields["velocity"], axis=1)
        moves = np.isin(ours, np.unique(ours[speed > MOVING_M_S]))
        label = self._table.at_rest[scan.fields["label"]]
        label = np.where(moves, self._table.moving[label], label)
        own = np.isin(ours, self.scenario.own_instances(scanner))
        stray = (scan.fields["origin"] != 0) | own
        label = np.where(stray, np.uint16(SEMANTIC_KITTI[semantic_kitti.OUTLIER]), label)
        thing = self._table.is_thing[label] | np.isin(ours, self._movable)
        return label, np.where(thing & ~stray, ours, np.uint32(0))

    def pose_files(self, sequence: str) -> list[str]:
        """SemanticKITTI keeps poses with the sequence, KITTI beside all sequences."""
        return [f"poses/{sequence}.txt", f"sequences/{sequence}/poses.txt"]

    def finish(self) -> None:
        """Write what the labels mean, too."""
        super().finish()
        sequences = [int(self._sequences[name]) for name in self._poses]
        self.folder.write("semantic-kitti.yaml", semantic_kitti.config_file(SEMANTIC_KITTI, sequences))
        self.folder.write("label-map.yaml", semantic_kitti.map_file(self._words, SEMANTIC_KITTI))


# ---- KITTI object ----------------------------------------------------------------------------------------------------


class KittiObjectSink(DatasetSink):
    """training/velodyne, calib and label_2; the frames of one lidar after those of another."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        counts = [scanner.count(scenario.duration_s) for scanner in self.scanners.values()]
        self._first = dict(zip(self.scanners, np.cumsum([0, *counts]).tolist(), strict=False))
        self._truth = {name: self.truth_of(scanner) for name, scanner in self.scanners.items()}
        self._pairs = Pairs(scenario, self.scanners)
        self._frames: list[tuple[int, str, int, float]] = []

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan with its picture, calibration and boxes."""
        self._write(self._pairs.scan(scanner, number, scan))

    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write the scans that wait for a picture."""
        self._write(self._pairs.image(camera, number, image))

    def _write(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self._write_pair(pair.scanner, pair.number, pair.scan, pair.image)

    def _write_pair(self, scanner: FrameOnBoard, number: int, scan: Scan, image: Image | None) -> None:
        frame = self._first[scanner.name] + number
        sensor, lens = scan.pose, None if image is None else image.intrinsics
        if image is not None and lens is not None:
            camera = image.pose
            cameras = (projection_of(lens), projection_of(lens, right=True))
            turn = ((camera @ OPTICAL).inverse() @ sensor).matrix[:3]
            size = (lens.width, lens.height)
        else:
            camera = Pose(sensor.xyz, about(2, heading_of(sensor.quat_xyzw[None])[0]))
            cameras = (layout.PROJECTION, layout.PROJECTION)
            turn = (OPTICAL.inverse() @ camera.inverse() @ sensor).matrix[:3]
            size = layout.IMAGE_SIZE
        calibration = layout.object_calibration(turn, scanner.mount.inverse().matrix, *cameras)
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
        kitti.write(cloud, self.folder.place(f"training/velodyne/{frame:06d}.bin"))
        self.folder.write(f"training/calib/{frame:06d}.txt", calibration)
        for name, lines in (("label_2", ahead), ("label_360", around)):
            self.folder.write(f"training/{name}/{frame:06d}.txt", "".join(f"{line}\n" for line in lines).encode())
        self._frames.append((frame, scanner.name, number, scan.start_time))

    def _seen(self, scanner: FrameOnBoard, image: Image, lens: Intrinsics) -> list[str]:
        """Lines of what a picture shows of things that move or can be moved, but for the robot itself."""
        things = self.movable() - set(self.scenario.own_instances(scanner))
        words = image.names.get("label", {})
        return [seen_line(one, words.get(one.label, ""), lens) for one in image.objects if one.instance in things]

    def finish(self) -> None:
        """Write the lists of frames."""
        self._frames.sort()
        numbers = "".join(f"{frame:06d}\n" for frame, *_ in self._frames).encode()
        for name in ("train", "trainval"):
            self.folder.write(f"ImageSets/{name}.txt", numbers)
        rows = "".join(f"{frame:06d},{name},{scan},{time!r}\n" for frame, name, scan, time in self._frames)
        self.folder.write("frames.csv", f"frame,lidar,scan,time_s\n{rows}".encode())


def write_pictures(folder: DatasetFolder, image: Image, place: str, number: str) -> None:
    """Write image_2, and image_3 of a stereo pair, straightened."""
    for name, pixels in (("image_2", image.colour), ("image_3", image.right)):
        if pixels is not None:
            folder.write(f"{place}/{name}/{number}.png", png.encode(straight(pixels, image)))


def seen_line(one: SeenObject, word: str, lens: Intrinsics) -> str:
    """The line of what a picture shows; its rectangle is that of the whole thing, were nothing in front of it."""
    turn = one.pose.rotation
    size = np.array(one.size_m)
    if bends(lens):
        bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
        corners = one.pose.apply((bits - 0.5) * size)
        picture = layout.in_picture(
            corners @ layout.CAMERA_FROM_LIDAR.T, projection_of(lens), (lens.width, lens.height)
        )
    else:
        left, top, right, bottom = one.full_box
        # KITTI's rectangles end on the last pixel, ours on the first one outside.
        picture = layout.InPicture(left, top, right - 1.0, bottom - 1.0, one.truncation)
    foot = layout.CAMERA_FROM_LIDAR @ (one.pose.xyz - 0.5 * size[2] * turn[:, 2])
    ahead = layout.CAMERA_FROM_LIDAR @ turn[:, 0]
    rotation_y = float(np.arctan2(-ahead[2], ahead[0]))
    kind, occluded = KITTI_TYPES.get(word, "Misc"), layout.occlusion(one.occlusion)
    return layout.label_line(kind, size, foot, rotation_y, picture=picture, occluded=occluded)


def object_line(
    box: Box, hidden: float, projection: Floats = layout.PROJECTION, size: tuple[int, int] = layout.IMAGE_SIZE
) -> tuple[str, bool]:
    """The line of a box that is given in the camera's frame (x forward), and whether it is in the picture."""
    picture = layout.in_picture(box.corners() @ layout.CAMERA_FROM_LIDAR.T, projection, size)
    foot = layout.CAMERA_FROM_LIDAR @ (box.centre - np.array([0.0, 0.0, 0.5 * box.size[2]]))
    turn = -box.yaw - 0.5 * np.pi
    kind = KITTI_TYPES.get(box.label, "Misc")
    line = layout.label_line(kind, box.size, foot, turn, picture=picture, occluded=layout.occlusion(hidden))
    return line, picture is not None
