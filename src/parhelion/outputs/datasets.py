"""A run as a public data set: folder/<kind> in the layout of KITTI, SemanticKITTI or nuScenes.

Clouds are those at the start of each scan, the sensor's own motion taken out, as in the real sets. Boxes lie where the
points of their thing are: at the mean time of those points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.inertial import Samples
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply
from parhelion.core.readers import Readers
from parhelion.core.records import PointCloud, Scan
from parhelion.core.trajectory import pose_at
from parhelion.io import kitti, kitti_poses
from parhelion.io import nuscenes as nuscenes_scan
from parhelion.io.datasets import kitti as layout
from parhelion.io.datasets import nuscenes, semantic_kitti
from parhelion.io.datasets.about import ABOUT, TITLES
from parhelion.io.datasets.folder import DatasetFolder
from parhelion.io.datasets.visibility import HiddenShare
from parhelion.io.timed_poses import TimedPoses
from parhelion.motion.actors.body import about, heading_of
from parhelion.motion.actors.mobility import mobility_table
from parhelion.outputs.boxes import KITTI_TYPES, NUSCENES_CATEGORIES, Box, BoxFrame, BoxTruth
from parhelion.sensors.lidar.intensity import BYTE_SCALES, velodyne
from parhelion.world.labels import SEMANTIC_KITTI

if TYPE_CHECKING:
    from parhelion.outputs.sinks import Sink
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import FrameOnBoard

MOVING_M_S = 0.2
"""A thing that is faster than this [m/s] moves; slower ones stand."""
DRIVEABLE = ("road", "lane-marking", "parking", "sidewalk", "floor", "quay", "other-ground")
"""Labels of what a map's mask shows."""
MAP_MARGIN_M, MAP_LARGEST_M = 100.0, 500.0
"""How far beyond the vehicle's way a map's mask goes, and its largest side [m]."""


DATASETS: Readers[str] = Readers("data sets", {Scan: "clouds, poses, boxes and labels"})
"""Which types of record the data sets hold."""
DATASETS.leaves_out(Samples, "these data sets hold no streams of samples; the run's own CSV files do")


def dataset_sink(kind: str, scenario: Scenario, folder: Path) -> Sink:
    """The sink that writes a run as a data set into folder/<kind>."""
    folders = {scanner.folder_name for scanner in scenario.giving(Scan)}
    if kind in folders | {f"{folder}-boxes" for folder in folders}:
        raise ConfigError(f"outputs: {kind}: a lidar's files have the same folder; give the lidar another name")
    if sum(entry.kind == kind for entry in scenario.settings.outputs) > 1:
        raise ConfigError(f"outputs: {kind} is given twice")
    if not scenario.frame_count:
        raise ConfigError(f"outputs: {kind} needs a lidar that makes a whole scan within duration_s")
    return SINKS[kind](kind, scenario, folder)


class DatasetSink(ABC):
    """What the data sets have in common: a folder, and lidars whose scans come in order."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.scanners = {one.name: one for one in scenario.giving(Scan) if one.count(scenario.duration_s)}
        self.folder = DatasetFolder(folder / kind, TITLES[kind], ABOUT[kind])
        self._taken = 0

    def take(self, step: Step) -> None:
        """Write the scans that a step finished."""
        for name, scans in step.scans.items():
            for number, scan in scans:
                self.add(self.scanners[name], number, scan)
                self._taken += 1

    def close(self) -> list[Path]:
        """Write what is known only at the end, and put the folder in its place: its files."""
        try:
            self.finish()
            self.folder.close()
        except BaseException:
            self.folder.discard()
            raise
        return self.folder.files

    def abandon(self) -> None:
        """Keep the scans so far as a smaller set, unless an earlier, whole one is there."""
        if self._taken and not self.folder.path.exists():
            with suppress(ParhelionError):  # what stopped the run is to be told, not that the disk is full here, too
                self.close()
        self.folder.discard()

    @abstractmethod
    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Take one scan."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is known only at the end."""

    def truth_of(self, scanner: FrameOnBoard) -> BoxTruth:
        """Boxes of what moves or can be moved, but for the robot that carries the lidar."""
        return BoxTruth(
            self.scenario.world,
            mobility=("movable", "dynamic"),
            sensor=scanner.sensor.known_as,
            without=self.scenario.own_instances(scanner),
        )


def cloud_of(scan: Scan, scanner: FrameOnBoard, largest: float) -> PointCloud:
    """The points at the scan's start, with intensity from 0 to `largest`."""
    value = scan.fields["intensity"]
    if scanner.sensor.config.intensity.scale not in BYTE_SCALES:
        value = velodyne(scan.fields["power"], scan.fields["reflectivity"])
    value = (np.clip(value, 0.0, 255.0) * (largest / 255.0)).astype(np.float32)
    return scan.deskewed().with_fields(intensity=value)


# ---- KITTI odometry and SemanticKITTI --------------------------------------------------------------------------------


class KittiOdometrySink(DatasetSink):
    """sequences/<nn>/velodyne, calib.txt and times.txt, and poses/<nn>.txt; a sequence for every lidar."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._sequences = {name: f"{row:02d}" for row, name in enumerate(self.scanners)}
        self._poses: dict[str, list[tuple[float, Pose]]] = {}

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan, and note its time and pose."""
        self.write_scan(scanner, scan, f"sequences/{self._sequences[scanner.name]}", f"{number:06d}")
        self._poses.setdefault(scanner.name, []).append((scan.start_time, scan.pose))

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
            self.folder.write(f"sequences/{sequence}/calib.txt", layout.odometry_calibration())
            times_file = self.folder.place(f"sequences/{sequence}/times.txt")
            for place in self.pose_files(sequence):
                kitti_poses.write(track, self.folder.place(place), times=times_file, axes="camera")

    def pose_files(self, sequence: str) -> list[str]:
        """Where tools look for a sequence's poses."""
        return [f"poses/{sequence}.txt"]


class SemanticKittiSink(KittiOdometrySink):
    """As for KITTI odometry, with sequences/<nn>/labels and the files that say what the labels are."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        world = scenario.world
        movable = {number for number, kind in mobility_table(world).items() if kind != "static"}
        self._movable = sorted(movable | {item.instance for item in world.objects if item.is_actor})
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


def moving(box: Box) -> bool:
    """Whether a thing moves."""
    return bool(np.linalg.norm(box.velocity) > MOVING_M_S)


def hidden_shares(scan: Scan, frame: BoxFrame, known: Collection[int] = ()) -> Iterator[tuple[Box, float]]:
    """Boxes of a scan in the world, each with the share of it that other things hide.

    Those with points, and of the others the instances that are `known`.
    """
    shares = HiddenShare(scan)
    for box, local in zip(frame.world, frame.sensor, strict=True):
        if box.points or box.instance in known:
            yield box, shares.of(local.centre, 0.5 * local.size, Pose(quat_xyzw=local.quat_xyzw).rotation)


# ---- KITTI object ----------------------------------------------------------------------------------------------------


class KittiObjectSink(DatasetSink):
    """training/velodyne, calib and label_2; the frames of one lidar after those of another."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        counts = [scanner.count(scenario.duration_s) for scanner in self.scanners.values()]
        self._first = dict(zip(self.scanners, np.cumsum([0, *counts]).tolist(), strict=False))
        self._truth = {name: self.truth_of(scanner) for name, scanner in self.scanners.items()}
        self._frames: list[tuple[int, str, int, float]] = []

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan, its calibration and its boxes."""
        frame = self._first[scanner.name] + number
        sensor = scan.pose
        level = Pose(sensor.xyz, about(2, heading_of(sensor.quat_xyzw[None])[0]))
        turn = Pose(quat_xyzw=quat_multiply(quat_conjugate(level.quat_xyzw), sensor.quat_xyzw)).rotation
        calibration = layout.object_calibration(layout.CAMERA_FROM_LIDAR @ turn, scanner.mount.inverse().matrix)
        around, ahead = [], []
        for box, hidden in hidden_shares(scan, self._truth[scanner.name].of(scan, "points")):
            line, in_view = object_line(box.seen_from(level), hidden)
            around.append(line)
            ahead += [line] * in_view
        cloud = cloud_of(scan, scanner, 1.0)
        kitti.write(cloud, self.folder.place(f"training/velodyne/{frame:06d}.bin"))
        self.folder.write(f"training/calib/{frame:06d}.txt", calibration)
        for name, lines in (("label_2", ahead), ("label_360", around)):
            self.folder.write(f"training/{name}/{frame:06d}.txt", "".join(f"{line}\n" for line in lines).encode())
        self._frames.append((frame, scanner.name, number, scan.start_time))

    def finish(self) -> None:
        """Write the lists of frames."""
        self._frames.sort()
        numbers = "".join(f"{frame:06d}\n" for frame, *_ in self._frames).encode()
        for name in ("train", "trainval"):
            self.folder.write(f"ImageSets/{name}.txt", numbers)
        rows = "".join(f"{frame:06d},{name},{scan},{time!r}\n" for frame, name, scan, time in self._frames)
        self.folder.write("frames.csv", f"frame,lidar,scan,time_s\n{rows}".encode())


def object_line(box: Box, hidden: float) -> tuple[str, bool]:
    """The line of a box that is given in the level lidar's frame, and whether it is in the nominal picture."""
    picture = layout.in_picture(box.corners() @ layout.CAMERA_FROM_LIDAR.T)
    foot = layout.CAMERA_FROM_LIDAR @ (box.centre - np.array([0.0, 0.0, 0.5 * box.size[2]]))
    turn = -box.yaw - 0.5 * np.pi
    kind = KITTI_TYPES.get(box.label, "Misc")
    line = layout.label_line(kind, box.size, foot, turn, picture=picture, occluded=layout.occlusion(hidden))
    return line, picture is not None


# ---- nuScenes --------------------------------------------------------------------------------------------------------


class _Group:
    """The lidars of one vehicle, and the scene that they make."""

    def __init__(self, scene: nuscenes.SceneTables, scanners: list[FrameOnBoard], duration_s: float) -> None:
        self.scene, self.main = scene, scanners[0]
        self.channels: dict[str, str] = {}
        self.samples: dict[str, dict[int, int]] = {}
        starts = {
            one.name: one.start(0) + one.period_s * np.arange(one.count(duration_s), dtype=np.float64)
            for one in scanners
        }
        at = starts[self.main.name][nuscenes.key_frames(starts[self.main.name])]
        for one in scanners:
            channel = "LIDAR_TOP" if one is self.main else f"LIDAR_{one.name.upper().replace('-', '_')}"
            while channel in scene.channels:
                channel += "_2"
            scene.channels[channel] = one.mount
            self.channels[one.name] = channel
            self.samples[one.name] = nuscenes.nearest_of(starts[one.name], at, 0.5 * one.period_s)


class NuScenesSink(DatasetSink):
    """Tables, samples and sweeps; a scene for every vehicle, and one for lidars that stand."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        self._tables = nuscenes.Tables(scenario.seed, scenario.settings.name)
        self._groups: dict[str, _Group] = {}
        vehicles: dict[str, list[FrameOnBoard]] = {}
        for one in self.scanners.values():
            vehicles.setdefault(one.entry.vehicle or "standing", []).append(one)
        world = scenario.settings.world
        for row, (vehicle, scanners) in enumerate(vehicles.items()):
            scene = nuscenes.SceneTables(
                name=nuscenes.SCENE_NAMES[row] if row < len(nuscenes.SCENE_NAMES) else f"scene-{2000 + row}",
                logfile=f"parhelion-{scenario.seed}-{vehicle}",
                vehicle=vehicle,
                location=world if isinstance(world, str) else world.name,
                description=scenario.settings.name or "simulated",
            )
            self._tables.scenes.append(scene)
            group = _Group(scene, scanners, scenario.duration_s)
            self._groups |= {one.name: group for one in scanners}
        self._truth = {group.main.name: self.truth_of(group.main) for group in self._groups.values()}

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write a scan; a key frame of the first lidar is a sample."""
        group = self._groups[scanner.name]
        channel, sample = group.channels[scanner.name], group.samples[scanner.name].get(number)
        stamp = round(1e6 * scan.start_time)
        kind = "sweeps" if sample is None else "samples"
        name = f"{kind}/{channel}/{group.scene.logfile}__{channel}__{stamp:016d}.pcd.bin"
        cloud = cloud_of(scan, scanner, 255.0)
        x, y, z = cloud.xyz.T
        turned = PointCloud(np.stack([-y, x, z], axis=1), cloud.fields, cloud.frame)
        nuscenes_scan.write(turned, self.folder.place(name))
        ego = Pose() if scanner.body is None else pose_at(scanner.body.motion, scan.start_time)
        group.scene.add_sweep(channel, stamp, name, ego, sample)
        if scanner is group.main and sample is not None:
            self._annotate(group, scan, cloud, stamp)

    def _annotate(self, group: _Group, scan: Scan, cloud: PointCloud, stamp: int) -> None:
        seen: list[nuscenes.Annotation] = []
        unseen: list[nuscenes.Annotation] = []
        sensor = scan.pose
        xyz = cloud.xyz.astype(np.float64)
        frame = self._truth[group.main.name].of(scan, "points")
        for box, hidden in hidden_shares(scan, frame, group.scene.tracks):
            category = category_of(box)
            one = nuscenes.Annotation(
                box.instance, category, _attribute(box, category), nuscenes.visibility_token(hidden), box.centre,
                box.size, box.quat_xyzw, box.velocity, _points_in(box.seen_from(sensor), xyz),
            )  # fmt: skip
            (seen if box.points else unseen).append(one)
        group.scene.add_sample(stamp, seen, unseen)

    def finish(self) -> None:
        """Write the tables and the maps."""
        for name, data in self._tables.files().items():
            self.folder.write(name, data)
        triangles = _driveable(self.scenario)
        for scene in self._tables.scenes:
            if scene.samples:
                way = np.array([sweep.ego.xyz[:2] for sweep in scene.sweeps])
                width, height = np.clip(way.max(axis=0) + MAP_MARGIN_M, 1.0, MAP_LARGEST_M).tolist()
                self.folder.write(self._tables.map_name(scene), nuscenes.map_mask(triangles, width, height))


def category_of(box: Box) -> str:
    """nuScenes' category of a thing; what it has no word for and moves by itself gets a category of its own."""
    further = {"bicyclist": "vehicle.bicycle", "motorcyclist": "vehicle.motorcycle", "moving-truck": "vehicle.truck"}
    other = "movable_object.pushable_pullable" if box.mobility == "movable" else f"dynamic_object.{box.label}"
    return (NUSCENES_CATEGORIES | further).get(box.label, other)


def _attribute(box: Box, category: str) -> str | None:
    return nuscenes.attribute_of(category, box.label, moving=moving(box), parked=box.mobility == "movable")


def _points_in(box: Box, xyz: Floats) -> int:
    away = xyz - box.centre
    near = np.einsum("ij,ij->i", away, away) <= 0.25 * float(box.size @ box.size)
    return int(np.count_nonzero(box.contains(xyz[near])))


def _driveable(scenario: Scenario) -> Floats:
    """Triangles (n, 3, 2) [m] of all that can be driven or walked on."""
    standing = [item for item in scenario.world.objects if item.label in DRIVEABLE and not item.is_actor]
    found = [part.placed[part.mesh.faces][:, :, :2] for item in standing for part in item.parts]
    return np.concatenate(found) if found else np.zeros((0, 3, 2))


SINKS: dict[str, type[DatasetSink]] = {
    "kitti-odometry": KittiOdometrySink,
    "semantic-kitti": SemanticKittiSink,
    "kitti-object": KittiObjectSink,
    "nuscenes": NuScenesSink,
}
"""The sinks by kind."""
